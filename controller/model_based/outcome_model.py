"""The evaluated architectures of one search, and predictions for all others."""

from __future__ import annotations

from functools import lru_cache
from typing import final

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from controller.base import Score
from controller.model_based.gaussian_process import GaussianProcess
from controller.model_based.outcome_scale import OutcomeScale
from controller.rows import keys_of

_POINTS = 8  # of the quadrature, for each outcome


@final
class OutcomeModel:
    """Predicts each outcome by itself; the reward is computed from them, not learned.

    So a limit stays as sharp as it is (Bayesian optimisation of composite functions: Astudillo &
    Frazier, ICML 2019). Equal architectures are equal rows. An outcome is the accuracy, and each
    cost as a share of its limit.
    """

    def __init__(self, positions: int, reach: float, noise: float) -> None:
        self._process = GaussianProcess(positions, reach, noise)
        self._row: dict[bytes, int] = {}
        self._outcomes = np.empty((0, 0))
        self.failed: set[bytes] = set()
        """Architectures whose trials failed; they are never `best`, and expected to be worst."""

    def __len__(self) -> int:
        return len(self._row)

    def __contains__(self, key: bytes) -> bool:
        return key in self._row

    @property
    def architectures(self) -> Int64[ndarray, "n D"]:
        """The known architectures, in the order in which they became known."""
        return self._process.architectures

    @property
    def outcomes(self) -> Float64[ndarray, "n M"]:
        """Outcome of each known architecture."""
        known: Float64[ndarray, "n M"] = self._outcomes[: len(self)].copy()
        return known

    def untried(self, architectures: Int64[ndarray, "n D"]) -> Bool[ndarray, "n"]:
        """Return True where an architecture neither is known nor has failed."""
        keys = keys_of(architectures)
        return np.array([key not in self._row and key not in self.failed for key in keys], bool)

    def add(self, architecture: Int64[ndarray, "D"], outcome: Float64[ndarray, "M"]) -> None:
        """Take in an architecture that is not known yet; call `fit` before any prediction."""
        n = len(self)
        if n == len(self._outcomes):
            known = self._outcomes.reshape(n, len(outcome))
            self._outcomes = np.pad(known, ((0, max(64, n)), (0, 0)))
        self._outcomes[n] = outcome
        key = architecture.tobytes()
        self._row[key] = n
        self.failed.discard(key)
        self._process.add(architecture)

    def fit(self) -> None:
        """Fit the model to all that was added."""
        known = self._outcomes[: len(self)]
        self._scale = OutcomeScale.of(known[:, 0])
        self._error = self._process.fit(self._scale.log(known))

    def best(self, count: int, score: Score) -> Int64[ndarray, "n"]:
        """Positions in `architectures` of the highest rewards, the first found of equal ones."""
        return np.argsort(-self._rewards(score), kind="stable")[:count]

    def expected(self, architectures: Int64[ndarray, "n D"], score: Score) -> Float64[ndarray, "n"]:
        """Reward of each, as evaluated or else as expected; -inf of those that failed."""
        unique, which = np.unique(architectures, axis=0, return_inverse=True)
        keys = keys_of(unique)
        known = np.array([key in self._row for key in keys])
        rewards = np.empty(len(unique))
        rewards[known] = self._rewards(score)[[self._row[key] for key in keys if key in self._row]]
        imagined, weights = self._imagine(unique[~known], score)
        rewards[~known] = imagined @ weights
        if self.failed:
            rewards[[key in self.failed for key in keys]] = -np.inf
        found: Float64[ndarray, "n"] = rewards[which]
        return found

    def by_promise(
        self, architectures: Int64[ndarray, "n D"], score: Score
    ) -> Int64[ndarray, "n D"]:
        """Unknown architectures in descending order of their expected improvement.

        Of two that are as good as sure not to surpass the best, the one of the higher expected
        reward comes first: the model may be wrong.
        """
        imagined, weights = self._imagine(architectures, score)
        improvement = np.maximum(imagined - self._rewards(score).max(), 0) @ weights
        order = np.lexsort((-(imagined @ weights), -improvement))
        ordered: Int64[ndarray, "n D"] = architectures[order]
        return ordered

    def cost(self, position: int) -> float:
        """Largest cost of a known architecture, as a share of its limit; 0 if there is none."""
        return float(self._outcomes[position, 1:].max(initial=0))

    def expected_cost(self, architectures: Int64[ndarray, "n D"]) -> Float64[ndarray, "n"]:
        """Largest expected cost of each, as a share of its limit; 0 if there is none."""
        mean = self._process.predict(architectures)
        costs: Float64[ndarray, "n"] = np.exp(mean + self._error**2 / 2)[:, 1:].max(-1, initial=0)
        return costs

    def _rewards(self, score: Score) -> Float64[ndarray, "n"]:
        known = self._outcomes[: len(self)]
        return score(known[:, 0], known[:, 1:])

    def _imagine(
        self, architectures: Int64[ndarray, "n D"], score: Score
    ) -> tuple[Float64[ndarray, "n Q"], Float64[ndarray, "Q"]]:
        """Rewards of each architecture at the points of a quadrature, and the points' weights."""
        points, weights = _quadrature(self._outcomes.shape[1])
        mean = self._process.predict(architectures)
        outcomes = self._scale.exp(mean[:, None] + self._error * points)
        return score(outcomes[..., 0], outcomes[..., 1:]), weights


@lru_cache
def _quadrature(dimensions: int) -> tuple[Float64[ndarray, "Q M"], Float64[ndarray, "Q"]]:
    """Gauss-Hermite points of independent standard normal variables, and their weights."""
    points, weights = np.polynomial.hermite_e.hermegauss(_POINTS)
    axes = np.meshgrid(*[points] * dimensions, indexing="ij")
    shares = np.meshgrid(*[weights / weights.sum()] * dimensions, indexing="ij")
    return (
        np.stack(axes, axis=-1).reshape(-1, dimensions),
        np.prod(shares, axis=0).reshape(-1),
    )
