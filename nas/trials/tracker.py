"""Running figures of a search, shared by the progress bar and TensorBoard."""

from __future__ import annotations

from collections import deque
from typing import final

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from nas.trials.limits import NO_FURTHER_LIMITS, Limit, Limits
from nas.trials.loop import Step
from nas.trials.trajectory import WINDOW
from nas.trials.trial import Samples


@final
class Tracker:
    """Means over the last 100 samples, and the best so far; a consumer of the loop."""

    def __init__(self, limit_ms: float, limits: Limits = NO_FURTHER_LIMITS) -> None:
        self._limit_ms = limit_ms
        self.limits = limits
        self._recent: deque[tuple[float, float, float]] = deque(maxlen=WINDOW)
        self._recent_architectures: deque[Int64[ndarray, "6"]] = deque(maxlen=WINDOW)
        self.samples = 0
        self.feasible = 0
        self.best_accuracy = np.nan  # of the samples within every limit
        self.best_latency_ms = np.nan

    def add(self, history: Samples) -> None:
        """Take in the samples of a run that goes on."""
        self._add(history.architectures, history.accuracy, history.latency_ms, history.rewards)

    def __call__(self, step: Step) -> None:
        """Take in the first replica's batch."""
        self._add(step.architectures[0], step.accuracy[0], step.latency_ms[0], step.rewards[0])

    @property
    def feasible_share(self) -> float:
        """Share of all samples that meet every limit."""
        return self.feasible / max(self.samples, 1)

    def recent_means(self) -> tuple[float, float, float]:
        """Mean accuracy, latency (ms) and reward of the last 100 samples."""
        accuracy, latency_ms, reward = np.mean(self._recent, axis=0)
        return float(accuracy), float(latency_ms), float(reward)

    def recent_band(self, share: float) -> Float64[ndarray, "2 3"]:
        """Between which accuracy, latency (ms) and reward this middle share of the last 100 lies."""
        return np.quantile(self._recent, [(1 - share) / 2, (1 + share) / 2], axis=0)

    def recent_costs(self) -> list[tuple[Limit, float]]:
        """Each limit beside the latency's, with its mean cost over the last 100 samples."""
        recent = np.array(self._recent_architectures, np.int64).reshape(-1, 6)
        return [(limit, float(limit.of(recent).mean())) for limit in self.limits.each]

    def _add(
        self,
        architectures: Int64[ndarray, "n 6"],
        accuracy: Float64[ndarray, "n"],
        latency_ms: Float64[ndarray, "n"],
        rewards: Float64[ndarray, "n"],
    ) -> None:
        self._recent_architectures.extend(architectures[-WINDOW:])
        numbers = zip(accuracy.tolist(), latency_ms.tolist(), rewards.tolist(), strict=True)
        for sample, met in zip(numbers, self.limits.met(architectures).tolist(), strict=True):
            self._recent.append(sample)
            self.samples += 1
            if met and sample[1] <= self._limit_ms:
                self.feasible += 1
                if not sample[0] <= self.best_accuracy:
                    self.best_accuracy, self.best_latency_ms = sample[:2]
