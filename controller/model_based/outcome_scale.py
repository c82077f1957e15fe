"""The scale on which accuracy is predicted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float64
from numpy import ndarray


@final
@dataclass(frozen=True)
class AccuracyScale:
    """Exponential score of the rank, -log(share that is better).

    Whatever the unit, the few best are far apart and the many bad ones are much the same.
    """

    values: Float64[ndarray, "n"]  # ascending, each once
    scores: Float64[ndarray, "n"]

    @classmethod
    def of(cls, accuracy: Float64[ndarray, "n"]) -> AccuracyScale:
        """Make the scale that these accuracies determine."""
        values, counts = np.unique(accuracy, return_counts=True)
        better = 1 - (counts.cumsum() - 0.5 * counts) / len(accuracy)
        return cls(values, -np.log(better))

    def __call__(self, accuracy: Float64[ndarray, "*n"]) -> Float64[ndarray, "*n"]:
        """Scores of accuracies; beyond the best, with the mean slope of the upper half."""
        top, middle = self.values[-1], self.values[len(self.values) // 2]
        run = self.scores[-1] - self.scores[len(self.values) // 2]
        slope = run / (top - middle) if top > middle else 1.0
        within = np.interp(accuracy, self.values, self.scores)
        return np.asarray(within + slope * np.maximum(accuracy - top, 0))
