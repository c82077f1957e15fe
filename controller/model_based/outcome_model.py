"""What one search has measured, and what it may expect of the rest."""

from __future__ import annotations

from functools import lru_cache
from typing import final

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from controller.base import Score
from controller.choice_space import ChoiceSpace
from controller.model_based.gaussian_process import GaussianProcess
from controller.model_based.outcome_scale import OutcomeScale

_POINTS = 8  # of the quadrature, for each outcome


@final
class OutcomeModel:
    """Predicts each outcome by itself; what a reward makes of them is computed, not learned.

    So a limit stays as sharp as it is (Bayesian optimisation of composite functions: Astudillo &
    Frazier, ICML 2019). Architectures are given by their numbers.
    """

    def __init__(self, space: ChoiceSpace, reach: float, noise: float) -> None:
        self._space = space
        self._process = GaussianProcess(len(space.num_choices), reach, noise)
        self._row: dict[int, int] = {}
        self._outcomes = np.empty((0, 0))

    def __len__(self) -> int:
        return len(self._row)

    def __contains__(self, number: int) -> bool:
        return number in self._row

    @property
    def numbers(self) -> Int64[ndarray, "n"]:
        """The known architectures, in the order in which they became known."""
        return np.array(list(self._row), np.int64)

    @property
    def outcomes(self) -> Float64[ndarray, "n M"]:
        """What was measured of each: the objective, and each cost as a share of its limit."""
        known: Float64[ndarray, "n M"] = self._outcomes[: len(self)].copy()
        return known

    def knows(self, numbers: Int64[ndarray, "n"]) -> Bool[ndarray, "n"]:
        """Which of these have been measured."""
        return np.array([number in self._row for number in numbers.tolist()], bool)

    def add(self, number: int, outcome: Float64[ndarray, "M"]) -> None:
        """Take in an architecture that is not known yet; `fit` before anything is asked."""
        n = len(self)
        if n == len(self._outcomes):
            known = self._outcomes.reshape(n, len(outcome))
            self._outcomes = np.pad(known, ((0, max(64, n)), (0, 0)))
        self._outcomes[n] = outcome
        self._row[number] = n
        self._process.add(self._space.architectures(np.array(number)))

    def fit(self) -> None:
        """Learn all that was taken in."""
        known = self._outcomes[: len(self)]
        self._scale = OutcomeScale.of(known[:, 0])
        self._error = self._process.fit(self._scale.log(known))

    def best(self, count: int, score: Score) -> Int64[ndarray, "n"]:
        """The known architectures of the highest rewards, the first found of equal ones."""
        order = np.argsort(-self._rewards(score), kind="stable")[:count]
        return self.numbers[order]

    def expected(self, numbers: Int64[ndarray, "n"], score: Score) -> Float64[ndarray, "n"]:
        """The reward of each, as measured or else as expected."""
        unique, which = np.unique(numbers, return_inverse=True)
        known = self.knows(unique)
        rewards = np.empty(len(unique))
        rows = [self._row[number] for number in unique[known].tolist()]
        rewards[known] = self._rewards(score)[rows]
        imagined, weights = self._imagine(unique[~known], score)
        rewards[~known] = imagined @ weights
        found: Float64[ndarray, "n"] = rewards[which]
        return found

    def by_promise(self, numbers: Int64[ndarray, "n"], score: Score) -> Int64[ndarray, "n"]:
        """Unknown architectures, those first of which the largest improvement is to be expected.

        Of two that are as good as sure not to surpass the best, the one of the higher expected
        reward comes first: the model may be wrong.
        """
        imagined, weights = self._imagine(numbers, score)
        improvement = np.maximum(imagined - self._rewards(score).max(), 0) @ weights
        ordered: Int64[ndarray, "n"] = numbers[np.lexsort((-(imagined @ weights), -improvement))]
        return ordered

    def cost(self, number: int) -> float:
        """The largest cost of a known architecture, as a share of its limit; 0 if there is none."""
        return float(self._outcomes[self._row[number], 1:].max(initial=0))

    def expected_cost(self, numbers: Int64[ndarray, "n"]) -> Float64[ndarray, "n"]:
        """The largest cost to be expected of each, as a share of its limit; 0 if there is none."""
        mean = self._process.predict(self._space.architectures(numbers))
        costs: Float64[ndarray, "n"] = np.exp(mean + self._error**2 / 2)[:, 1:].max(-1, initial=0)
        return costs

    def _rewards(self, score: Score) -> Float64[ndarray, "n"]:
        known = self._outcomes[: len(self)]
        return score(known[:, 0], known[:, 1:])

    def _imagine(
        self, numbers: Int64[ndarray, "n"], score: Score
    ) -> tuple[Float64[ndarray, "n Q"], Float64[ndarray, "Q"]]:
        """Rewards of each architecture at the points of a quadrature, and the points' weights."""
        points, weights = _quadrature(self._outcomes.shape[1])
        mean = self._process.predict(self._space.architectures(numbers))
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
