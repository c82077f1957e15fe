"""Statistics over seeds. Infinite values are events that did not happen; they rank last.

The tests and the bootstrap are SciPy's; the probability of improvement is that of Agarwal et al.
(NeurIPS 2021), as their library rliable computes it.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import final

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

LEVEL = 0.95
RESAMPLES = 2000
_NEVER = 1e6
FEWEST = 5
"""Least number of values for an interval: a bootstrap of fewer is almost always too narrow."""


@final
@dataclass(frozen=True)
class Interval:
    """A number and its 95 % interval; no interval where there are fewer than `FEWEST` values."""

    middle: float
    low: float | None = None
    high: float | None = None

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Lower and upper end, or None."""
        return None if self.low is None or self.high is None else (self.low, self.high)


def no_intervals(seeds: int) -> str:
    """Warning about too few seeds; empty where there are enough."""
    if seeds >= FEWEST:
        return ""
    return (
        f"{seeds} seed{'s' * (seeds != 1)}: no intervals are given, so differences may be chance; use "
        f"{FEWEST} seeds or more."
    )


def with_intervals(seeds: int) -> str:
    """Phrase that follows a mean or median over these seeds; empty for too few."""
    return " with bootstrap 95 % intervals" if seeds >= FEWEST else ""


def text_of(interval: Interval | None, *, digits: int | None = None) -> str:
    """An interval in text, as `3.1 [2.9, 3.4]`; `never` if infinite, `unknown` if None."""
    if interval is None:
        return "unknown"
    middle = number_text(interval.middle, digits)
    low, high = (number_text(x, digits) for x in interval.bounds or [interval.middle] * 2)
    return middle if low == high == middle else f"{middle} [{low}, {high}]"


def number_text(value: float, digits: int | None = None) -> str:
    """A number in text with these decimals, or as many as suit its size; `never` if infinite."""
    if math.isinf(value):
        return "never"
    if digits is None:
        whole = value == round(value) and abs(value) >= 1
        digits = 0 if whole or abs(value) >= 100 else 2 if abs(value) >= 1 else 3
    return f"{value:,.{digits}f}"


def median_intervals(rows: Float64[ndarray, "k n"]) -> list[Interval]:
    """Median of each row, and its percentile bootstrap interval.

    An even sample whose middle two straddle the infinite has an infinite median.
    """
    from scipy.stats import bootstrap  # noqa: PLC0415 - half a second that a worker does not need

    middle = np.median(rows, axis=1)
    if rows.shape[1] < FEWEST:
        return [Interval(m) for m in middle.tolist()]
    never = np.isinf(rows)
    largest = 1 + np.abs(np.where(never, 0, rows)).max()
    # so large that every mean with such a value is beyond all others
    replaced = np.where(never, _NEVER * largest * np.sign(rows), rows)
    interval = bootstrap(
        (replaced,),
        np.median,
        axis=1,
        n_resamples=RESAMPLES,
        confidence_level=LEVEL,
        method="percentile",
        random_state=np.random.default_rng(0),
    ).confidence_interval
    bounds = np.stack([middle, interval.low, interval.high], axis=1)
    bounds = np.where(np.abs(bounds) > largest, np.copysign(np.inf, bounds), bounds)
    return [Interval(*row) for row in bounds.tolist()]


def mean_interval(values: Float64[ndarray, "n"]) -> Interval:
    """Mean of a sample, and its percentile bootstrap interval."""
    middle = float(values.mean())
    if len(values) < FEWEST:
        return Interval(middle)
    means = resample(len(values), 0) @ values
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(middle, float(low), float(high))


def probability_of_improvement(
    first: Float64[ndarray, "n"], second: Float64[ndarray, "m"]
) -> Interval:
    """Probability that a run of the first beats a run of the second, where less is better.

    Ties count half. The interval is from a bootstrap that draws the runs of both anew.
    """
    wins = (first[:, None] < second) + 0.5 * (first[:, None] == second)
    middle = float(wins.mean())
    if min(wins.shape) < FEWEST:
        return Interval(middle)
    # the mean of a resampled matrix is a mean over how often each row and column was drawn
    rows, columns = (resample(n, side) for side, n in enumerate(wins.shape))
    low, high = np.quantile(((rows @ wins) * columns).sum(1), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(middle, float(low), float(high))


@cache
def resample(count: int, stream: int) -> Float64[ndarray, "draws n"]:
    """Share of each run in each bootstrap resample."""
    generator = np.random.default_rng([0, stream])
    return generator.multinomial(count, np.full(count, 1 / count), RESAMPLES) / count


def paired_p(first: Float64[ndarray, "n"], second: Float64[ndarray, "n"]) -> float:
    """Two-sided p of Wilcoxon's signed-rank test over seeds; zero differences by Pratt.

    A difference from an infinite value is larger than all others; two infinite values do not differ.
    """
    from scipy.stats import wilcoxon  # noqa: PLC0415 - half a second that a worker does not need

    both = np.concatenate([first, second])
    largest = float(np.abs(both[np.isfinite(both)]).max(initial=0))
    never = _NEVER * (1 + largest)
    ours, theirs = (
        np.where(np.isinf(values), np.copysign(never, values), values) for values in (first, second)
    )
    difference = ours - theirs
    if not difference.any():
        return 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the few seeds
        return float(wilcoxon(difference, zero_method="pratt").pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p values of Holm (1979), which bound the probability of any false rejection."""
    order = np.argsort(p_values, kind="stable")
    adjusted = [0.0] * len(p_values)
    least = 0.0
    for rank, position in enumerate(order):
        least = max(least, min(1.0, (len(p_values) - rank) * p_values[position]))
        adjusted[position] = least
    return adjusted
