"""Running figures of a search, shared by the progress bar and TensorBoard."""

from __future__ import annotations

from collections import deque
from typing import final

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from nas.samples import Samples
from nas.search import Step
from nas.trajectory import WINDOW


@final
class Tracker:
    """Means over the last 100 samples, and the best so far; a consumer of the loop."""

    def __init__(self, limit_ms: float) -> None:
        self._limit_ms = limit_ms
        self._recent: deque[tuple[float, float, float]] = deque(maxlen=WINDOW)
        self.samples = 0
        self.feasible = 0
        self.best_accuracy = np.nan  # of the samples within the limit
        self.best_latency_ms = np.nan

    def add(self, history: Samples) -> None:
        """Take in the samples of a run that goes on."""
        self._add(history.accuracy, history.latency_ms, history.rewards)

    def __call__(self, step: Step) -> None:
        """Take in the first replica's batch."""
        self._add(step.accuracy[0], step.latency_ms[0], step.rewards[0])

    @property
    def feasible_share(self) -> float:
        """Share of all samples that meet the limit."""
        return self.feasible / max(self.samples, 1)

    def recent_means(self) -> tuple[float, float, float]:
        """Mean accuracy, latency (ms) and reward of the last 100 samples."""
        accuracy, latency_ms, reward = np.mean(self._recent, axis=0)
        return float(accuracy), float(latency_ms), float(reward)

    def recent_band(self, share: float) -> Float64[ndarray, "2 3"]:
        """Between which accuracy, latency (ms) and reward this middle share of the last 100 lies."""
        return np.quantile(self._recent, [(1 - share) / 2, (1 + share) / 2], axis=0)

    def _add(
        self,
        accuracy: Float64[ndarray, "n"],
        latency_ms: Float64[ndarray, "n"],
        rewards: Float64[ndarray, "n"],
    ) -> None:
        for sample in zip(accuracy.tolist(), latency_ms.tolist(), rewards.tolist(), strict=True):
            self._recent.append(sample)
            self.samples += 1
            if sample[1] <= self._limit_ms:
                self.feasible += 1
                if not sample[0] <= self.best_accuracy:
                    self.best_accuracy, self.best_latency_ms = sample[:2]
