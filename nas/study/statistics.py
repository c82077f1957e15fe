"""Statistics over seeds. Infinite values stand for what never happened, and rank last.

The tests and the bootstrap are SciPy's; the probability of improvement is that of Agarwal et al.
(NeurIPS 2021), as their library rliable computes it.
"""

from __future__ import annotations

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
"""Values without which there is no interval: a bootstrap of one is as wide as a point, of two to four
hardly ever wide enough."""


@final
@dataclass(frozen=True)
class Interval:
    """A number and the 95 % interval around it; of fewer than `FEWEST` values there is none."""

    middle: float
    low: float | None = None
    high: float | None = None

    @property
    def bounds(self) -> tuple[float, float] | None:
        """From and to."""
        return None if self.low is None or self.high is None else (self.low, self.high)


def no_intervals(seeds: int) -> str:
    """What is said of too few seeds; empty where there are enough."""
    if seeds >= FEWEST:
        return ""
    return (
        f"{seeds} seed{'s' * (seeds != 1)}: no intervals are given, so nothing tells a difference from "
        f"chance; {FEWEST} seeds or more give them."
    )


def with_intervals(seeds: int) -> str:
    """Behind what is said of a mean or a median over so many seeds; empty of too few."""
    return " with bootstrap 95 % intervals" if seeds >= FEWEST else ""


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
    # so far beyond every other value that any mean with it is, too
    replaced = np.where(never, _NEVER * largest * np.sign(rows), rows)
    found = bootstrap(
        (replaced,),
        np.median,
        axis=1,
        n_resamples=RESAMPLES,
        confidence_level=LEVEL,
        method="percentile",
        random_state=np.random.default_rng(0),
    ).confidence_interval
    bounds = np.stack([middle, found.low, found.high], axis=1)
    bounds = np.where(np.abs(bounds) > largest, np.copysign(np.inf, bounds), bounds)
    return [Interval(*row) for row in bounds.tolist()]


def mean_interval(values: Float64[ndarray, "n"]) -> Interval:
    """Mean of a sample, and its percentile bootstrap interval."""
    middle = float(values.mean())
    if len(values) < FEWEST:
        return Interval(middle)
    means = _drawn(len(values), 0) @ values
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(middle, float(low), float(high))


def probability_of_improvement(
    tasks: Sequence[tuple[Float64[ndarray, "n"], Float64[ndarray, "m"]]],
) -> Interval:
    """How likely a run of the first beats a run of the second, where less is better.

    Mean over the tasks; ties count half. The interval is from a bootstrap that draws runs anew in
    each task.
    """
    every = [_wins(first, second) for first, second in tasks]
    middle = sum((float(wins.mean()) / len(tasks) for wins in every), 0.0)
    if any(min(wins.shape) < FEWEST for wins in every):
        return Interval(middle)
    draws = np.zeros(RESAMPLES)
    for task, wins in enumerate(every):
        # the mean of a resampled matrix is a mean over how often each row and column was drawn
        rows, columns = (_drawn(n, 2 * task + side) for side, n in enumerate(wins.shape))
        draws += ((rows @ wins) * columns).sum(1) / len(tasks)
    low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(middle, float(low), float(high))


@cache
def _drawn(count: int, stream: int) -> Float64[ndarray, "draws n"]:
    """How often each of so many runs is drawn in each resample, as a share."""
    generator = np.random.default_rng([0, stream])
    return generator.multinomial(count, np.full(count, 1 / count), RESAMPLES) / count


def _wins(first: Float64[ndarray, "n"], second: Float64[ndarray, "m"]) -> Float64[ndarray, "n m"]:
    less = first[:, None] < second[None]
    equal = first[:, None] == second[None]
    wins: Float64[ndarray, "n m"] = less + 0.5 * equal
    return wins


def paired_p(first: Float64[ndarray, "n"], second: Float64[ndarray, "n"]) -> float:
    """Two-sided p of Wilcoxon's signed-rank test over seeds; zero differences by Pratt.

    What never happened in one and did in the other is the largest difference there is; in both,
    none at all.
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
        warnings.simplefilter("ignore")  # that few seeds make a rough p
        return float(wilcoxon(difference, zero_method="pratt").pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's (1979) adjusted p values: one error in all of them, at most at this level."""
    order = np.argsort(p_values, kind="stable")
    adjusted = [0.0] * len(p_values)
    least = 0.0
    for rank, position in enumerate(order):
        least = max(least, min(1.0, (len(p_values) - rank) * p_values[position]))
        adjusted[position] = least
    return adjusted


def hypervolume(
    latency_ms: Float64[ndarray, "n"], accuracy: Float64[ndarray, "n"], worst_ms: float
) -> float:
    """Area that the points dominate: faster than `worst_ms`, more accurate than 0."""
    order = np.lexsort((-accuracy, latency_ms))
    times, heights = latency_ms[order], np.maximum.accumulate(accuracy[order])
    inside = times < worst_ms
    times, heights = times[inside], heights[inside]
    widths = np.diff(np.append(times, worst_ms))
    return float((widths * heights).sum())
