"""The best architectures of a search so far, which a policy goes on learning from."""

from __future__ import annotations

from typing import final

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray


@final
class Elite:
    """The distinct architectures of the highest score in each replica, best first.

    Empty places have a score of -inf and a cost of inf.
    """

    def __init__(self, replicas: int, size: int, positions: int) -> None:
        self.architectures = np.zeros((replicas, size, positions), np.int64)
        self.scores = np.full((replicas, size), -np.inf)
        self.costs = np.full((replicas, size), np.inf)

    def add(
        self,
        architectures: Int64[ndarray, "R B D"],
        scores: Float64[ndarray, "R B"],
        costs: Float64[ndarray, "R B"],
    ) -> None:
        """Take in what is better than the worst; of equal rows, the first answer counts."""
        size = self.scores.shape[1]
        rows = np.concatenate([self.architectures, architectures], axis=1)
        scores = np.concatenate([self.scores, scores], axis=1)
        costs = np.concatenate([self.costs, costs], axis=1)
        filled = np.isfinite(scores)
        same = (rows[:, :, None] == rows[:, None]).all(-1) & filled[:, None]
        repeated = (same & np.tri(rows.shape[1], k=-1, dtype=bool)).any(-1)
        scores = np.where(repeated, -np.inf, scores)
        best = np.argsort(-scores, axis=1, kind="stable")[:, :size]
        self.architectures = np.take_along_axis(rows, best[..., None], axis=1)
        self.scores = np.take_along_axis(scores, best, axis=1)
        self.costs = np.where(
            np.isfinite(self.scores), np.take_along_axis(costs, best, axis=1), np.inf
        )
