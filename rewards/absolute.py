"""TuNAS's absolute reward (Bender et al., CVPR 2020, section 3.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from rewards.base import Reward

_STEEPEST = 1000


@final
@dataclass
class AbsoluteReward(Reward):
    """accuracy + slope * |latency / target - 1|, with a negative slope.

    Its maximum is drawn to the target from both sides: a network faster than the target is
    punished too.

    Raises:
      ValueError: if the slope is not negative.
    """

    slope: float = -0.07  # beta

    def __post_init__(self) -> None:
        if not -_STEEPEST <= self.slope < 0:
            raise ValueError(
                f"reward.slope={self.slope:g} must be negative, as in TuNAS: -0.07; at least -{_STEEPEST}"
            )

    def score(
        self, accuracy: Float64[ndarray, "*n"], latency_ms: Float64[ndarray, "*n"]
    ) -> Float64[ndarray, "*n"]:
        """The formula, on arrays of one shape."""
        rewards: Float64[ndarray, "*n"] = accuracy + self.slope * np.abs(
            latency_ms / self.target_ms - 1
        )
        return rewards
