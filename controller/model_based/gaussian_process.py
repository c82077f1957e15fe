"""A Gaussian process over architectures, which predicts those not evaluated yet.

Rasmussen & Williams, 2006, algorithm 2.1. Nothing is fitted but the values; the errors that leaving
one out makes (ibid., eq. 5.12) correct the predicted standard deviation by a factor.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, final, runtime_checkable

import numpy as np
from jaxtyping import Float64
from numpy import ndarray
from scipy.linalg import cholesky, solve_triangular
from scipy.linalg.lapack import dpotri

from controller.model_based.similarity import Places, Similarity, Weights, taken

_LEAST, _MOST = 0.25, 3.0  # bounds of the factor


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
    """Predicts one value of an architecture from those of n others.

    Pending architectures have no value yet; knowing that they will makes the process surer of its
    predictions near them, and does not change these (kriging believer: Ginsbourger et al., 2010).
    """

    similarity: Similarity
    weights: Weights
    seen: Places  # known, then pending
    factor: Float64[ndarray, "m m"]  # Cholesky factor of their covariance
    solved: Float64[ndarray, "n"]  # inverse of the known part's covariance, times the values
    mean: float
    scale: float  # standard deviation of the values
    caution: float  # factor of the predicted standard deviation

    @classmethod
    def fit(
        cls,
        similarity: Similarity,
        weights: Weights,
        seen: Places,
        values: Float64[ndarray, "n"],
    ) -> GaussianProcess:
        """Fit one value or more; the places behind those that have one are pending."""
        count = len(values)
        covariance = similarity(seen, seen, weights)
        covariance[np.diag_indices(len(covariance))] += weights.noise
        factor = cholesky(covariance, lower=True, check_finite=False)
        mean, scale = float(values.mean()), float(values.std()) or 1.0
        standard = (values - mean) / scale
        inverse, _ = dpotri(factor[:count, :count], lower=True)
        inverse = np.tril(inverse) + np.tril(inverse, -1).T
        solved = inverse @ standard
        variance = 1 / inverse.diagonal()  # of each value, given all others
        caution = np.sqrt(np.mean(solved**2 * variance))
        return cls(
            similarity,
            weights,
            seen,
            factor,
            solved,
            mean,
            scale,
            float(np.clip(caution, _LEAST, _MOST)),
        )

    def predict(self, places: Places) -> Prediction:
        """Mean and standard deviation of any architectures, without noise."""
        near = self.similarity(self.seen, places, self.weights)
        explained = solve_triangular(self.factor, near, lower=True, check_finite=False)
        mean = self.mean + self.scale * (self.solved @ near[: len(self.solved)])
        variance = self.similarity.prior(places, self.weights) - (explained**2).sum(0)
        return Prediction(self, places, mean, variance, explained)


@final
@dataclass
class Prediction:
    """Predictions for n architectures; `expect` makes one of them pending."""

    process: GaussianProcess
    places: Places
    mean: Float64[ndarray, "n"]
    variance: Float64[ndarray, "n"]  # on the standard scale, before `caution`
    explained: Float64[ndarray, "m n"]
    _expected: list[Float64[ndarray, "n"]] = field(default_factory=list)

    @property
    def sd(self) -> Float64[ndarray, "n"]:
        """Standard deviation, in the unit of the values."""
        sd: Float64[ndarray, "n"] = np.sqrt(np.maximum(self.variance, 1e-9))
        return self.process.scale * self.process.caution * sd

    def expect(self, position: int) -> None:
        """Lower the variances by what the value at this position will explain."""
        process = self.process
        here = taken(self.places, np.array([position]))
        shared = process.similarity(here, self.places, process.weights)[0]
        shared -= self.explained[:, position] @ self.explained
        for row in self._expected:
            shared -= row[position] * row
        row = shared / np.sqrt(shared[position] + process.weights.noise)
        self._expected.append(row)
        self.variance = self.variance - row**2
