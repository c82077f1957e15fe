"""Feasibility rules as a reward (Deb, CMAME 2000): its maximum is the constrained optimum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from rewards.base import Reward

if TYPE_CHECKING:
    from jaxtyping import Float64
    from numpy import ndarray


@final
@dataclass
class ConstrainedReward(Reward):
    """accuracy within the target; beyond it, target / latency - 1.

    A feasible network scores its accuracy, at least 0; an infeasible one scores below 0 and
    falls with its excess, whatever its accuracy. Bounded by -1, so that no slow network
    drowns the policy gradient.
    """

    def score(
        self, accuracy: Float64[ndarray, "*n"], latency_ms: Float64[ndarray, "*n"]
    ) -> Float64[ndarray, "*n"]:
        """The formula, on arrays of one shape."""
        within = latency_ms <= self.target_ms
        return np.where(within, accuracy, self.target_ms / latency_ms - 1)
