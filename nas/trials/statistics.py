"""Statistics of one search: the course of its samples, running figures and the history of choices."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import final

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from controller.base import Controller
from edgenas_core.types.kind import Kind
from nas.trials.limits import NO_FURTHER_LIMITS, Limit, Limits
from nas.trials.survey import with_margin
from nas.trials.trial import State, Trials

WINDOW = 100
BINS = 50
"""Bins of a curve, at most: a window each at 5,000 samples."""
LEAST_IN_BIN = 20
BAND = 0.8
"""Share of a bin's samples, the middle ones, that a band holds."""


def bin_edges(samples: int) -> Int64[ndarray, "bins_and_1"]:
    """Beginnings of the bins of so many samples, and the end of the last one."""
    count = min(BINS, max(1, samples // LEAST_IN_BIN))
    return np.arange(count + 1) * samples // count


def sample_within_limit(latency_ms: Float64[ndarray, "n"], limit_ms: float) -> int | None:
    """Samples after which the mean latency (or another cost, of another limit) of a sliding window stays within the limit.

    The window holds the last 100 samples, so 100 is the least there is; None if the mean is
    beyond the limit at the end, or there are fewer samples than that.
    """
    if len(latency_ms) < WINDOW:
        return None
    sums = np.cumsum(np.concatenate([[0.0], latency_ms]))
    means = (sums[WINDOW:] - sums[:-WINDOW]) / WINDOW
    # differences of sums round: a mean that is the limit must not count as beyond it
    beyond = np.flatnonzero(means > limit_ms * (1 + 1e-9))
    last = WINDOW - 1 if not len(beyond) else WINDOW + int(beyond[-1])
    return last + 1 if last < len(latency_ms) else None


def best_feasible(
    accuracy: Float64[ndarray, "n"],
    latency_ms: Float64[ndarray, "n"],
    limit_ms: float,
    also: Bool[ndarray, "n"] | None = None,
) -> int | None:
    """Position of the first most accurate sample within the limit; None if there is none.

    `also` says which samples are within the further limits.
    """
    within = latency_ms <= limit_ms
    if also is not None:
        within &= also
    if not within.any():
        return None
    return int(np.argmax(np.where(within, accuracy, -np.inf)))


@final
class Tracker:
    """Means over the last 100 trials, and the best so far; a consumer of the loop."""

    def __init__(
        self, limit_ms: float, limits: Limits = NO_FURTHER_LIMITS, margin: float = 0.0
    ) -> None:
        self._limit_ms = limit_ms
        self._margin = margin  # of predicted latencies, as of a `SearchProblem`
        self.limits = limits
        self._recent: deque[tuple[float, float, float]] = deque(maxlen=WINDOW)
        self._recent_costs: deque[Float64[ndarray, "L"]] = deque(maxlen=WINDOW)
        self.samples = 0  # trials that ended
        self.failed = 0
        self.feasible = 0
        self.best_accuracy = np.nan  # of the trials within every limit

    def __call__(self, trials: Trials) -> None:
        """Take in the first replica's trials, or the record of one search."""
        record = trials.replica(0) if trials.state.ndim > 1 else trials
        self.samples += len(record)
        if (record.state != State.done).any():
            self.failed += int((record.state != State.done).sum())
            record = record.rows(record.state == State.done)
        self._recent_costs.extend(record.costs[-WINDOW:])
        compared_ms = with_margin(record.latency_ms, record.latency_kind, self._margin)
        within = (compared_ms <= self._limit_ms) & (record.latency_kind != Kind.disturbed)
        met = (within & self.limits.met(record.costs)).tolist()
        columns = (record.accuracy.tolist(), record.latency_ms.tolist(), record.rewards.tolist())
        for trial, is_met in zip(zip(*columns, strict=True), met, strict=True):
            self._recent.append(trial)
            if is_met:
                self.feasible += 1
                if not trial[0] <= self.best_accuracy:
                    self.best_accuracy = trial[0]

    @property
    def feasible_share(self) -> float:
        """Share of all trials that meet every limit."""
        return self.feasible / max(self.samples, 1)

    @property
    def has_recent(self) -> bool:
        """Whether any trial is done, so that there are means."""
        return bool(self._recent)

    def recent_means(self) -> tuple[float, float, float]:
        """Mean accuracy, latency (ms) and reward of the last 100 trials."""
        accuracy, latency_ms, reward = np.mean(self._recent, axis=0)
        return float(accuracy), float(latency_ms), float(reward)

    def recent_costs(self) -> list[tuple[Limit, float]]:
        """Each limit beside the latency's, with its mean cost over the last 100 trials."""
        if not self.limits:
            return []
        means = np.mean(self._recent_costs, axis=0).tolist()
        return list(zip(self.limits.each, means, strict=True))


@final
class ChoiceHistory:
    """Means of the first replica's probabilities, or shares of its trials where it has no policy."""

    def __init__(self, controller: Controller, num_choices: Sequence[int], budget: int) -> None:
        self._probabilities: Callable[[], Float64[ndarray, "R D K"] | None] | None = getattr(
            controller, "probabilities", None
        )
        self.edges = bin_edges(budget)
        bins = len(self.edges) - 1
        self._options = np.arange(max(num_choices))
        self._sums = np.zeros((bins, len(num_choices), max(num_choices)))
        self._samples = np.zeros(bins)

    @property
    def has_policy(self) -> bool:
        """Whether the values are probabilities of a policy instead of shares of samples."""
        return self._probabilities is not None

    def __call__(self, first: int, architectures: Int64[ndarray, "R B D"]) -> None:
        """Take in the batch that was sampled last; all of it counts where its first trial does."""
        here = int(np.searchsorted(self.edges, first, side="right")) - 1
        batch_size = architectures.shape[1]
        drawn_by = None if self._probabilities is None else self._probabilities()
        if drawn_by is None:
            self._sums[here] += (architectures[0][:, :, None] == self._options).sum(0)
        else:
            self._sums[here] += batch_size * drawn_by[0]
        self._samples[here] += batch_size

    def means(self) -> Float64[ndarray, "bins D K"]:
        """Probability or share of each option of each position; NaN where no batch began."""
        with np.errstate(invalid="ignore"):
            return self._sums / self._samples[:, None, None]
