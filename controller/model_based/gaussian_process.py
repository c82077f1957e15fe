"""Gaussian process over architectures (Rasmussen & Williams, 2006, algorithm 2.1) and its kernel.

The kernel of two architectures x and y with D choices and J descriptions d_j, each scaled to a total
variance of 1, is

    k(x, y) = 9 + w_choices exp(-1.5 h(x, y)) + w_smooth / J sum_j exp(-|d_j(x) - d_j(y)|^2 / 2)
              + w_linear / J sum_j d_j(x) . d_j(y),

where h is the share of the D choices that differ. The choices tell any two architectures apart, the
descriptions generalise to similar architectures, and the linear part extrapolates.

With K = k(X, X) + w_noise I = L L^T and standardised values y, the prediction at x is

    mean = k(x, X) K^-1 y,    variance = c^2 (k(x, x) - |L^-1 k(X, x)|^2).

No weight is fitted. The factor c is the root mean square of the standardised errors of leaving one
value out, (K^-1 y)_i / sqrt((K^-1)_ii) (ibid., eq. 5.12), clipped to [0.25, 3].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, final, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64
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


_LEAST, _MOST = 0.25, 3.0  # bounds of the factor
_CERTAIN = 1e-6  # least variance


@runtime_checkable
class Normal(Protocol):
    """Independent normal variables."""

    @property
    def mean(self) -> Float64[ndarray, "n"]:
        """Expected value of each."""

    @property
    def sd(self) -> Float64[ndarray, "n"]:
        """Standard deviation of each."""


@final
@dataclass(frozen=True)
class GaussianProcess:
    """Predicts one value of an architecture from those of m others.

    Those without a value, pending or failed, are taken to have the value that the others predict
    (kriging believer: Ginsbourger et al., 2010): the process is surer of its predictions near
    them, and these do not change.
    """

    weights: KernelWeights
    whitening: Float32[ndarray, "m m"]  # inverse of the Cholesky factor of the covariance
    solved: Float32[ndarray, "m"]  # inverse of the covariance, times the values
    smoothed: Float64[ndarray, "k"]  # values without noise
    mean: float
    scale: float  # standard deviation of the values
    caution: float  # factor of the predicted standard deviation

    @classmethod
    def fit(
        cls,
        weights: KernelWeights,
        among: Parts,
        values: Float64[ndarray, "k"],
        has_value: Bool[ndarray, "m"],
    ) -> GaussianProcess:
        """Fit one value or more.

        Args:
          weights: of the parts of the kernel.
          among: parts of the kernel between the m architectures.
          values: of those that have one.
          has_value: True for these.
        """
        from scipy.linalg import cholesky, solve  # noqa: PLC0415 - half a second that others do not need
        from scipy.linalg.lapack import dtrtri  # noqa: PLC0415 - as above

        covariance = weights.covariance(among).astype(np.float64)
        covariance[np.diag_indices(len(covariance))] += weights.noise
        factor = cholesky(covariance, lower=True, check_finite=False, overwrite_a=True)
        whitening, _ = dtrtri(factor, lower=True, overwrite_c=True)
        mean, scale = float(values.mean()), float(values.std()) or 1.0
        standard = np.zeros(len(has_value))
        standard[has_value] = (values - mean) / scale
        solved = (whitening @ standard) @ whitening
        if not has_value.all():
            blank = whitening[:, ~has_value]
            believed = solve(
                blank.T @ blank, -solved[~has_value], assume_a="pos", check_finite=False
            )
            solved += (blank @ believed) @ whitening
        variance = 1 / (whitening**2).sum(0)  # of each value, given all others
        caution = np.sqrt(np.mean((solved**2 * variance)[has_value]))
        return cls(
            weights,
            whitening.astype(np.float32),
            solved.astype(np.float32),
            values - scale * weights.noise * solved[has_value],
            mean,
            scale,
            float(np.clip(caution, _LEAST, _MOST)),
        )

    def predict(self, near: Parts, prior: Float32[ndarray, "n"]) -> Prediction:
        """Mean and standard deviation of n architectures, without noise.

        Args:
          near: parts of the kernel between the m architectures and these.
          prior: prior variance of these.
        """
        covariance = self.weights.covariance(near)
        explained = self.whitening @ covariance
        mean = self.mean + self.scale * (self.solved @ covariance).astype(np.float64)
        return Prediction(self, mean, prior - (explained**2).sum(0), explained)


@final
@dataclass
class Prediction:
    """Predictions for n architectures; `expect` makes one of them pending."""

    process: GaussianProcess
    mean: Float64[ndarray, "n"]
    variance: Float32[ndarray, "n"]  # on the standard scale, before `caution`
    explained: Float32[ndarray, "m n"]
    _expected: list[Float32[ndarray, "n"]] = field(default_factory=list)

    @property
    def sd(self) -> Float64[ndarray, "n"]:
        """Standard deviation, in the unit of the values."""
        sd = np.sqrt(np.maximum(self.variance, _CERTAIN).astype(np.float64))
        return np.asarray(self.process.scale * self.process.caution * sd)

    def expect(self, position: int, near: Parts) -> None:
        """Lower the variances by what the value at this position will explain.

        Args:
          position: of one of the n architectures.
          near: parts of the kernel between it and all n.
        """
        weights = self.process.weights
        shared = weights.covariance(near)[0] - self.explained[:, position] @ self.explained
        for row in self._expected:
            shared -= row[position] * row
        row = shared / np.sqrt(max(shared[position], _CERTAIN) + weights.noise)
        self._expected.append(row)
        self.variance = self.variance - row**2
