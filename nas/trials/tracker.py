"""Running figures of a search, shared by the progress bar and TensorBoard."""

from __future__ import annotations

from collections import deque
from typing import final

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from common.types.kind import Kind
from nas.trials.limits import NO_FURTHER_LIMITS, Limit, Limits
from nas.trials.survey import with_margin
from nas.trials.trajectory import WINDOW
from nas.trials.trial import State, Trials


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
        one = trials.replica(0) if trials.state.ndim > 1 else trials
        self.samples += len(one)
        if (one.state != State.done).any():
            self.failed += int((one.state != State.done).sum())
            one = one.rows(one.state == State.done)
        self._recent_costs.extend(one.costs[-WINDOW:])
        compared_ms = with_margin(one.latency_ms, one.latency_kind, self._margin)
        within = (compared_ms <= self._limit_ms) & (one.latency_kind != Kind.disturbed)
        met = (within & self.limits.met(one.costs)).tolist()
        columns = (one.accuracy.tolist(), one.latency_ms.tolist(), one.rewards.tolist())
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
        """Whether any trial was done, so that there are means."""
        return bool(self._recent)

    def recent_means(self) -> tuple[float, float, float]:
        """Mean accuracy, latency (ms) and reward of the last 100 trials."""
        accuracy, latency_ms, reward = np.mean(self._recent, axis=0)
        return float(accuracy), float(latency_ms), float(reward)

    def recent_band(self, share: float) -> Float64[ndarray, "2 3"]:
        """Between which accuracy, latency (ms) and reward this middle share of the last 100 lies."""
        return np.quantile(self._recent, [(1 - share) / 2, (1 + share) / 2], axis=0)

    def recent_costs(self) -> list[tuple[Limit, float]]:
        """Each limit beside the latency's, with its mean cost over the last 100 trials."""
        if not self.limits:
            return []
        means = np.mean(self._recent_costs, axis=0).tolist()
        return list(zip(self.limits.each, means, strict=True))
