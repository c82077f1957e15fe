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
from typing import TypeAlias, final

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64
from numpy import ndarray

from controller.base import Choices
from controller.rows import keys_of

_DRAWS = 1_000  # uniform architectures that estimate the scale of each description
_REACH = 1.5  # factor of h in the exponent
_LEVEL = 9.0  # prior variance of the constant, on a scale of unit variance
_REMEMBERED = (
    20_000  # architectures whose descriptions are cached, since a space may compute them slowly
)

Points: TypeAlias = tuple[Float32[ndarray, "_ _"], ...]
"""Architectures as points: one-hot choices of length 1, then each description."""


@final
@dataclass(frozen=True)
class KernelWeights:
    """Prior variance of each part of the kernel and of the noise, for values of unit variance."""

    choices: float
    smooth: float
    linear: float
    noise: float

    def covariance(self, parts: KernelParts) -> Float32[ndarray, "*n"]:
        """Weighted sum of the parts: the prior covariance."""
        covariance: Float32[ndarray, "*n"] = self.choices * parts.choices + np.float32(_LEVEL)
        covariance += self.smooth * parts.smooth
        covariance += self.linear * parts.linear
        return covariance


@final
@dataclass(frozen=True)
class KernelParts:
    """Unweighted parts of the kernel between pairs of architectures."""

    choices: Float32[ndarray, "*n"]
    smooth: Float32[ndarray, "*n"]
    linear: Float32[ndarray, "*n"]


@final
class Similarity:
    """Maps architectures of one space to points, and computes the parts of the kernel between points.

    Each description is scaled to a total variance of 1.
    """

    def __init__(self, space: Choices) -> None:
        self._options = np.array(space.num_choices)
        self._describe: Callable[[ndarray], tuple[ndarray, ...]] = getattr(
            space, "descriptions", self._one_hot_alone
        )
        self._scales = []
        for values in self._describe(space.sample(np.random.default_rng(0), _DRAWS)):
            total = np.sqrt(values.var(0).sum()) or 1.0
            self._scales.append((values.mean(0), 1 / total))
        widths = [int(self._options.sum()), *(len(middle) for middle, _ in self._scales)]
        self._ends = np.cumsum(widths)
        self._forget()

    def _forget(self, least: int = 0) -> None:
        """Empty the cache of descriptions; the new one has room for at least `least`."""
        self._at: dict[bytes, int] = {}
        self._remembered = np.empty((max(_REMEMBERED, least), self._ends[-1]), np.float32)

    def _one_hot_alone(self, rows: Int64[ndarray, "n D"]) -> tuple[Float64[ndarray, "n K"]]:
        return (self._one_hot(rows),)

    def _one_hot(self, rows: Int64[ndarray, "n D"]) -> Float64[ndarray, "n K"]:
        starts = self._options.cumsum() - self._options
        hot = np.zeros((len(rows), self._options.sum()))
        np.put_along_axis(hot, rows + starts, 1 / np.sqrt(len(starts)), axis=1)
        return hot

    def points(self, rows: Int64[ndarray, "n D"]) -> Points:
        """Points of the architectures."""
        keys = keys_of(rows)
        new = {key: at for at, key in enumerate(keys) if key not in self._at}
        if len(self._at) + len(new) > len(self._remembered):
            self._forget(len(keys))
            new = {key: at for at, key in enumerate(keys)}
        start = len(self._at)
        if new:
            self._at.update(zip(new, range(start, start + len(new)), strict=True))
            self._remembered[start : len(self._at)] = self._describe_points(
                rows[list(new.values())]
            )
        points = self._remembered[[self._at[key] for key in keys]]
        return tuple(np.split(points, self._ends[:-1], axis=1))

    def _describe_points(self, rows: Int64[ndarray, "n D"]) -> Float64[ndarray, "n K"]:
        descriptions = zip(self._describe(rows), self._scales, strict=True)
        scaled = [(values - middle) * scale for values, (middle, scale) in descriptions]
        return np.concatenate([self._one_hot(rows), *scaled], axis=1)

    def diagonal(self, points: Points) -> KernelParts:
        """Parts of the kernel k(x, x) of each architecture with itself."""
        parts = len(self._scales)
        linear: Float32[ndarray, "n"] = sum((values**2).sum(1) for values in points[1:]) / parts
        return KernelParts(np.ones_like(linear), np.ones_like(linear), linear)

    def __call__(self, ours: Points, theirs: Points) -> KernelParts:
        """Parts of the kernel of every pair of `ours` and `theirs`."""
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
        return KernelParts(choices, smooth, linear)


def points_at(points: Points, which: ndarray) -> Points:
    """Subset of points, by indices or by mask."""
    return tuple(values[which] for values in points)


_LEAST, _MOST = 0.25, 3.0  # bounds of the factor c
_CERTAIN = 1e-6  # least variance, on the standard scale


@final
@dataclass(frozen=True)
class Normal:
    """Independent normal variables."""

    mean: Float64[ndarray, "n"]
    sd: Float64[ndarray, "n"]


@final
@dataclass(frozen=True)
class GaussianProcess:
    """Predicts one value of an architecture from the values of m others.

    Architectures without a value (pending or failed) get the value that the others predict (kriging believer:
    Ginsbourger et al., 2010): this lowers the variance near them and leaves all means unchanged.
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
        among: KernelParts,
        values: Float64[ndarray, "k"],
        has_value: Bool[ndarray, "m"],
    ) -> GaussianProcess:
        """Fit at least one value.

        Args:
          weights: of the parts of the kernel.
          among: parts of the kernel between the m architectures.
          values: of those that have one.
          has_value: True for the architectures that have one.
        """
        from scipy.linalg import cholesky, solve  # noqa: PLC0415 - half a second that others do not need
        from scipy.linalg.lapack import dtrtri  # noqa: PLC0415 - loaded when needed

        # K = L L^T, and the inverse of L
        covariance = weights.covariance(among).astype(np.float64)
        covariance[np.diag_indices(len(covariance))] += weights.noise
        factor = cholesky(covariance, lower=True, check_finite=False, overwrite_a=True)
        whitening, _ = dtrtri(factor, lower=True, overwrite_c=True)
        # K^-1 y of the standardised values
        mean, scale = float(values.mean()), float(values.std()) or 1.0
        standard = np.zeros(len(has_value))
        standard[has_value] = (values - mean) / scale
        solved = (whitening @ standard) @ whitening
        if not has_value.all():  # choose missing values so that their part of K^-1 y is 0
            blank = whitening[:, ~has_value]
            believed = solve(
                blank.T @ blank, -solved[~has_value], assume_a="pos", check_finite=False
            )
            solved += (blank @ believed) @ whitening
        # standardised errors of leaving one value out
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

    def predict(self, near: KernelParts, prior: Float32[ndarray, "n"]) -> Prediction:
        """Mean and variance of n architectures, without noise.

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
    def normal(self) -> Normal:
        """Means and standard deviations, in the unit of the values."""
        sd = np.sqrt(np.maximum(self.variance, _CERTAIN).astype(np.float64))
        return Normal(self.mean, np.asarray(self.process.scale * self.process.caution * sd))

    def expect(self, position: int, near: KernelParts) -> None:
        """Condition the variances on the pending value at this position.

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
