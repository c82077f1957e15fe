"""The scales on which accuracy and costs are predicted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

_WIDEST = 8.0  # costs are clipped to this many limits, and to 1 / 8 of a limit


@final
@dataclass(frozen=True)
class OutcomeScale:
    """Maps an objective and costs (shares of their limits) to what a model can predict, and back.

    The objective becomes the exponential score of its rank, -log(share that is better): whatever
    its unit, the few best are far apart and the many bad ones are much the same. A cost becomes
    its logarithm.
    """

    values: Float64[ndarray, "n"]  # of the objective, ascending, each once
    scores: Float64[ndarray, "n"]

    @classmethod
    def of(cls, objective: Float64[ndarray, "n"]) -> OutcomeScale:
        """Make the scale that these objectives determine."""
        values, counts = np.unique(objective, return_counts=True)
        better = 1 - (counts.cumsum() - 0.5 * counts) / len(objective)
        return cls(values, -np.log(better))

    def log(self, outcomes: Float64[ndarray, "*n M"]) -> Float64[ndarray, "*n M"]:
        """Scale outcomes, the objective first."""
        scaled = np.empty_like(outcomes)
        scaled[..., 0] = np.interp(outcomes[..., 0], self.values, self.scores)
        scaled[..., 1:] = np.log(np.clip(outcomes[..., 1:], 1 / _WIDEST, _WIDEST))
        return scaled

    def exp(self, scaled: Float64[ndarray, "*n M"]) -> Float64[ndarray, "*n M"]:
        """Map back to outcomes; beyond the best, with the mean slope of the upper half."""
        outcomes = np.empty_like(scaled)
        top, middle = len(self.values) - 1, len(self.values) // 2
        rise = self.values[top] - self.values[middle]
        run = self.scores[top] - self.scores[middle]
        slope = rise / run if run else 0.0
        outcomes[..., 0] = np.interp(scaled[..., 0], self.scores, self.values)
        outcomes[..., 0] += slope * np.maximum(scaled[..., 0] - self.scores[top], 0)
        outcomes[..., 1:] = np.exp(scaled[..., 1:])
        return outcomes
