"""MnasNet's weighted-product reward (Tan et al., CVPR 2019, eq. 2 and 3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from rewards.base import Reward

_LARGEST = 20


@final
@dataclass
class MnasReward(Reward):
    """accuracy * (latency / target) ** w, with w chosen by the side of the target.

    Equal exponents make the target a soft constraint, the paper's choice (alpha = beta =
    -0.07: twice the latency for 5 % more accuracy is an even trade); alpha = 0, beta = -1
    make it a hard one.

    Raises:
      ValueError: if an exponent is not finite, or so large that rewards would not be.
    """

    exponent_within: float = -0.07  # alpha
    exponent_beyond: float = -0.07  # beta

    def __post_init__(self) -> None:
        for name in ("exponent_within", "exponent_beyond"):
            exponent = getattr(self, name)
            if not abs(exponent) <= _LARGEST:
                raise ValueError(
                    f"reward.{name}={exponent:g} is not finite, or beyond {_LARGEST}; MnasNet takes -0.07"
                )

    def score(
        self, accuracy: Float64[ndarray, "*n"], latency_ms: Float64[ndarray, "*n"]
    ) -> Float64[ndarray, "*n"]:
        """The formula, on arrays of one shape."""
        rewards: Float64[ndarray, "*n"] = accuracy * self._factor(latency_ms / self.target_ms)
        return rewards

    def score_limits(
        self,
        accuracy: Float64[ndarray, "*n"],
        latency_ms: Float64[ndarray, "*n"],
        further: Float64[ndarray, "*n L"],
    ) -> Float64[ndarray, "*n"]:
        """The product has a factor for each limit, all with the same exponents."""
        return np.asarray(self.score(accuracy, latency_ms) * self._factor(further).prod(-1))

    def _factor(self, ratio: Float64[ndarray, "*n"]) -> Float64[ndarray, "*n"]:
        w = np.where(ratio <= 1, self.exponent_within, self.exponent_beyond)
        factor: Float64[ndarray, "*n"] = ratio**w
        return factor
