"""The exact answers that a table gives for free. The searcher never sees them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from latency.base import LatencyOracle
from nas.accuracy.base import Accuracy
from nas.spaces.nas_bench_201.space import NAS_BENCH_201
from nas.trials.limits import NO_FURTHER_LIMITS, Limits
from rewards.base import Reward


@final
@dataclass(frozen=True)
class Landscape:
    """Accuracy and latency of the whole space, by official index, and what is within the limits."""

    accuracy: Float64[ndarray, "15625"]  # on the split that is searched on, a fraction
    latency_ms: Float64[ndarray, "15625"]  # NaN where this device was not measured
    limit_ms: float
    limits: Limits = NO_FURTHER_LIMITS

    @property
    def feasible(self) -> Bool[ndarray, "15625"]:
        """Which architectures are known to meet every limit."""
        return np.asarray((self.latency_ms <= self.limit_ms) & self.limits.all_met)  # not for NaN

    @property
    def feasible_share(self) -> float:
        """Share of the whole space that is known to meet every limit."""
        return float(self.feasible.mean())

    @property
    def optimum(self) -> int | None:
        """Index of the most accurate feasible architecture, the faster of two; None if none is."""
        return self._best(np.where(self.feasible, self.accuracy, -np.inf))

    def favourite(self, reward: Reward) -> int | None:
        """Index of the architecture that the reward itself likes best."""
        known = ~np.isnan(self.latency_ms)
        latency_ms = np.where(known, self.latency_ms, 1.0)
        rewards = reward(self.accuracy, latency_ms, self.limits.all_ratios)
        return self._best(np.where(known, rewards, -np.inf))

    def rank(self, accuracy: float) -> int:
        """1 + how many feasible architectures are more accurate."""
        return 1 + int((self.feasible & (self.accuracy > accuracy)).sum())

    @property
    def pareto_front(self) -> Int64[ndarray, "n"]:
        """Indices of the architectures that none beats in both, from fast to slow.

        Those beyond a limit other than the latency's take no part.
        """
        taking_part = np.where(self.limits.all_met, self.latency_ms, np.nan)
        return pareto_front(self.accuracy, taking_part)

    def _best(self, values: Float64[ndarray, "15625"]) -> int | None:
        best = np.flatnonzero(values == values.max())
        if np.isneginf(values[best[0]]):
            return None
        return int(best[np.argmin(self.latency_ms[best])])


def pareto_front(
    accuracy: Float64[ndarray, "n"], latency_ms: Float64[ndarray, "n"]
) -> Int64[ndarray, "front"]:
    """Positions of those that none beats in both, from fast to slow; a NaN latency is beaten."""
    order = np.lexsort((-accuracy, latency_ms))
    order = order[~np.isnan(latency_ms[order])]
    best_before = np.maximum.accumulate(np.concatenate([[-np.inf], accuracy[order]]))[:-1]
    front: Int64[ndarray, "front"] = order[accuracy[order] > best_before]
    return front


def survey(
    accuracy: Accuracy,
    oracle: LatencyOracle,
    limit_ms: float,
    limits: Limits = NO_FURTHER_LIMITS,
) -> Landscape | None:
    """The landscape, or None where asking for the whole space is not free."""
    if not (accuracy.tabular and oracle.tabular):
        return None
    everything = NAS_BENCH_201.rows
    known = oracle.known(everything)
    latency_ms = np.full(len(everything), np.nan)
    latency_ms[known] = oracle.latency_ms(everything[known])
    return Landscape(accuracy(everything), latency_ms, limit_ms, limits)
