"""The log-constrained weighted sum (Im, master's thesis, Hansung University 2022, eq. 4 and 5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from rewards.base import Reward


@final
@dataclass
class ProposedReward(Reward):
    """x * accuracy + y * log_T(1.5 T - latency), with x + y = 1 and T in milliseconds.

    The second term is 0 from latency = 1.5 T - 1 on, where the logarithm reaches 0, so the
    reward is continuous. Its slope grows beyond T and flattens below it, the opposite of
    MnasNet's.

    Raises:
      ValueError: if T <= 1 ms, where the logarithm's base turns its sign, or y is not in [0, 1].
    """

    latency_weight: float = 0.1  # y; the accuracy's weight x is the rest

    def __post_init__(self) -> None:
        if self.target_ms <= 1:
            raise ValueError(
                f"reward=proposed needs T > 1ms, because T is the base of its logarithm, "
                f"but T is {self.target_ms:g}ms; take reward=constrained or reward=mnasnet"
            )
        if not 0 <= self.latency_weight <= 1:
            raise ValueError(
                f"reward.latency_weight={self.latency_weight:g} is not between 0 and 1"
            )

    @property
    def caveat(self) -> str:
        """Sentence on latencies within T that score like latencies beyond T, which exist below T = 2 ms."""
        flat_ms = 1.5 * self.target_ms - 1
        if flat_ms >= self.target_ms:
            return ""
        return (
            f"with T = {self.target_ms:g} ms reward=proposed does not tell a latency within T from one "
            f"beyond: from {flat_ms:g} ms on its latency term is 0; take reward=constrained, or T of 2 ms "
            f"or more"
        )

    def score(
        self, accuracy: Float64[ndarray, "*n"], latency_ms: Float64[ndarray, "*n"]
    ) -> Float64[ndarray, "*n"]:
        """The formula, on arrays of one shape."""
        room = np.maximum(1.5 * self.target_ms - latency_ms, 1)  # eq. 4's zero branch: log 1
        latency_term = np.log(room) / np.log(self.target_ms)
        rewards: Float64[ndarray, "*n"] = (
            1 - self.latency_weight
        ) * accuracy + self.latency_weight * latency_term
        return rewards
