"""TuNAS's absolute reward (Bender et al., CVPR 2020, section 3.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from rewards.base import Reward

_SLOPE = -0.07  # beta, as in TuNAS


@final
@dataclass
class AbsoluteReward(Reward):
    """accuracy - 0.07 * |latency / target - 1|.

    Its maximum is drawn to the target from both sides: a network faster than the target is
    punished too.
    """

    def score(
        self, accuracy: Float64[ndarray, "*n"], latency_ms: Float64[ndarray, "*n"]
    ) -> Float64[ndarray, "*n"]:
        """The formula, on arrays of one shape."""
        rewards: Float64[ndarray, "*n"] = accuracy + _SLOPE * np.abs(
            latency_ms / self.target_ms - 1
        )
        return rewards
