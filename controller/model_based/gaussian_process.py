"""A Gaussian process over architectures, which predicts those not evaluated yet.

Rasmussen & Williams, 2006, algorithm 2.1. Nothing is fitted but the values; the errors that leaving
one out makes (ibid., eq. 5.12) correct the predicted standard deviation by a factor.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, final, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float32, Float64
from numpy import ndarray

from controller.model_based.similarity import KernelWeights, Parts

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
