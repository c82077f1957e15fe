"""Similarity of architectures: the kernel of the Gaussian processes.

A constant, the share of equal choices, and for each description that the space gives of its rows a
radial basis function and a linear part. The choices tell any two architectures apart, the
descriptions carry what was learned to all that are alike, the linear part beyond what was seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from controller.base import Choices, Described, Featured

_DRAWS = 1_000  # uniform architectures from which the scale of each description is estimated
_REACH = 1.5  # of exp(-reach * share of the choices that differ)
_LEVEL = 9.0  # prior variance of the level, on a scale of unit variance

Places: TypeAlias = tuple[Float64[ndarray, "_ _"], ...]
"""Architectures as points: one-hot choices of length 1, then each description."""


@final
@dataclass(frozen=True)
class Weights:
    """Prior variance of each part, on a scale where the values have unit variance."""

    choices: float
    smooth: float
    linear: float
    noise: float


class Similarity:
    """Places of architectures of one space, and the kernel between them.

    Each description is scaled to a total variance of 1; columns of features to equal ones before.
    """

    def __init__(self, space: Choices) -> None:
        self._options = np.array(space.num_choices)
        self._describe: Callable[[ndarray], Places] = self._one_hot_alone
        unlike = True  # the columns differ in unit
        if isinstance(space, Described):
            self._describe, unlike = space.descriptions, False
        elif isinstance(space, Featured):
            self._describe = lambda rows: (space.features(rows),)
        self._scales = []
        for values in self._describe(space.sample(np.random.default_rng(0), _DRAWS)):
            spread = values.std(0) if unlike else np.ones(values.shape[1])
            spread[spread == 0] = 1.0
            total = np.sqrt((values / spread).var(0).sum()) or 1.0
            self._scales.append((values.mean(0), 1 / (spread * total)))

    def _one_hot_alone(self, rows: Int64[ndarray, "n D"]) -> Places:
        return (self._one_hot(rows),)

    def _one_hot(self, rows: Int64[ndarray, "n D"]) -> Float64[ndarray, "n K"]:
        starts = self._options.cumsum() - self._options
        hot = np.zeros((len(rows), self._options.sum()))
        np.put_along_axis(hot, rows + starts, 1 / np.sqrt(len(starts)), axis=1)
        return hot

    def places(self, rows: Int64[ndarray, "n D"]) -> Places:
        """Where the kernel sees the architectures."""
        descriptions = zip(self._describe(rows), self._scales, strict=True)
        return (self._one_hot(rows), *((v - middle) * scale for v, (middle, scale) in descriptions))

    def prior(self, places: Places, weights: Weights) -> Float64[ndarray, "n"]:
        """Prior variance of each, without noise."""
        linear = sum((values**2).sum(1) for values in places[1:])
        level = _LEVEL + weights.choices + weights.smooth
        variance: Float64[ndarray, "n"] = level + weights.linear / len(self._scales) * linear
        return variance

    def __call__(self, ours: Places, theirs: Places, weights: Weights) -> Float64[ndarray, "n m"]:
        """Prior covariance of every pair."""
        same = ours[0] @ theirs[0].T
        found: Float64[ndarray, "n m"] = weights.choices * np.exp(_REACH * (same - 1)) + _LEVEL
        parts = len(self._scales)
        for x, y in zip(ours[1:], theirs[1:], strict=True):
            product = x @ y.T
            distance = product - (x**2).sum(1)[:, None] / 2 - (y**2).sum(1) / 2
            found += weights.smooth / parts * np.exp(np.minimum(distance, 0))
            found += weights.linear / parts * product
        return found


def taken(places: Places, which: ndarray) -> Places:
    """Some of the places, by position or by mask."""
    return tuple(values[which] for values in places)


def joined(some: Places, more: Places) -> Places:
    """Places one after another."""
    return tuple(np.concatenate(pair) for pair in zip(some, more, strict=True))
