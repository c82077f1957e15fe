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
from jaxtyping import Float32, Float64, Int64
from numpy import ndarray

from controller.base import Choices, Described
from controller.rows import keys_of

_DRAWS = 1_000  # uniform architectures from which the scale of each description is estimated
_REACH = 1.5  # of exp(-reach * share of the choices that differ)
_LEVEL = 9.0  # prior variance of the level, on a scale of unit variance
_REMEMBERED = 20_000  # architectures whose descriptions are kept: a space may be slow to give them

Places: TypeAlias = tuple[Float32[ndarray, "_ _"], ...]
"""Architectures as points: one-hot choices of length 1, then each description."""


@final
@dataclass(frozen=True)
class KernelWeights:
    """Prior variance of each part, on a scale where the values have unit variance."""

    choices: float
    smooth: float
    linear: float
    noise: float

    def covariance(self, parts: Parts) -> Float32[ndarray, "*n"]:
        """Prior covariance, of parts of the kernel."""
        covariance: Float32[ndarray, "*n"] = self.choices * parts.choices + np.float32(_LEVEL)
        covariance += self.smooth * parts.smooth
        covariance += self.linear * parts.linear
        return covariance


@final
@dataclass(frozen=True)
class Parts:
    """Parts of the kernel between some architectures and others."""

    choices: Float32[ndarray, "*n"]
    smooth: Float32[ndarray, "*n"]
    linear: Float32[ndarray, "*n"]


@final
class Similarity:
    """Places of architectures of one space, and the kernel between them.

    Each description is scaled to a total variance of 1.
    """

    def __init__(self, space: Choices) -> None:
        self._options = np.array(space.num_choices)
        self._describe: Callable[[ndarray], tuple[ndarray, ...]] = self._one_hot_alone
        if isinstance(space, Described):
            self._describe = space.descriptions
        self._scales = []
        for values in self._describe(space.sample(np.random.default_rng(0), _DRAWS)):
            total = np.sqrt(values.var(0).sum()) or 1.0
            self._scales.append((values.mean(0), 1 / total))
        widths = [int(self._options.sum()), *(len(middle) for middle, _ in self._scales)]
        self._ends = np.cumsum(widths)
        self._forget()

    def _forget(self, least: int = 0) -> None:
        """Begin to remember descriptions anew, with room for at least so many."""
        self._at: dict[bytes, int] = {}
        self._remembered = np.empty((max(_REMEMBERED, least), self._ends[-1]), np.float32)

    def _one_hot_alone(self, rows: Int64[ndarray, "n D"]) -> tuple[Float64[ndarray, "n K"]]:
        return (self._one_hot(rows),)

    def _one_hot(self, rows: Int64[ndarray, "n D"]) -> Float64[ndarray, "n K"]:
        starts = self._options.cumsum() - self._options
        hot = np.zeros((len(rows), self._options.sum()))
        np.put_along_axis(hot, rows + starts, 1 / np.sqrt(len(starts)), axis=1)
        return hot

    def places(self, rows: Int64[ndarray, "n D"]) -> Places:
        """Where the kernel sees the architectures."""
        keys = keys_of(rows)
        new = {key: at for at, key in enumerate(keys) if key not in self._at}
        if len(self._at) + len(new) > len(self._remembered):
            self._forget(len(keys))
            new = {key: at for at, key in enumerate(keys)}
        start = len(self._at)
        if new:
            self._at.update(zip(new, range(start, start + len(new)), strict=True))
            self._remembered[start : len(self._at)] = self._placed(rows[list(new.values())])
        points = self._remembered[[self._at[key] for key in keys]]
        return tuple(np.split(points, self._ends[:-1], axis=1))

    def _placed(self, rows: Int64[ndarray, "n D"]) -> Float64[ndarray, "n K"]:
        descriptions = zip(self._describe(rows), self._scales, strict=True)
        scaled = [(values - middle) * scale for values, (middle, scale) in descriptions]
        return np.concatenate([self._one_hot(rows), *scaled], axis=1)

    def itself(self, places: Places) -> Parts:
        """Parts of the kernel between each architecture and itself."""
        parts = len(self._scales)
        linear: Float32[ndarray, "n"] = sum((values**2).sum(1) for values in places[1:]) / parts
        return Parts(np.ones_like(linear), np.ones_like(linear), linear)

    def __call__(self, ours: Places, theirs: Places) -> Parts:
        """Parts of the kernel of every pair."""
        choices = ours[0] @ theirs[0].T
        choices -= 1
        choices *= _REACH
        np.exp(choices, out=choices)
        smooth, linear = np.zeros_like(choices), np.zeros_like(choices)
        parts = np.float32(len(self._scales))
        for x, y in zip(ours[1:], theirs[1:], strict=True):
            product = x @ y.T
            linear += product
            product -= (x**2).sum(1)[:, None] / 2
            product -= (y**2).sum(1) / 2
            np.minimum(product, 0, out=product)
            smooth += np.exp(product, out=product)
        linear /= parts
        smooth /= parts
        return Parts(choices, smooth, linear)


def taken(places: Places, which: ndarray) -> Places:
    """Some of the places, by position or by mask."""
    return tuple(values[which] for values in places)
