"""A Gaussian process over architectures, which predicts those not evaluated yet.

The kernel is exp(-reach * share of the choices that differ): a product over the positions, so all
interactions are in it, the low ones foremost. Nothing is fitted but the values themselves; the
inverse Cholesky factor grows by a row an architecture (Rasmussen & Williams, 2006, algorithm 2.1).
"""

from __future__ import annotations

from typing import final

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray


@final
class GaussianProcess:
    """Predicts M values of an architecture at once, which share the kernel.

    `noise` is the residual variance, as a share of the variance that the kernel explains.
    """

    def __init__(self, positions: int, reach: float, noise: float) -> None:
        self._correlation = np.exp(-reach * np.arange(positions + 1) / positions)
        self._noise = noise
        self._seen = np.empty((0, positions), np.int64)
        self._factor = np.empty((0, 0))  # inverse of the Cholesky factor, with room to grow
        self._precision = np.empty(0)  # diagonal of the inverse of the kernel's matrix
        self._count = 0
        self._weights = np.empty((0, 0))
        self._mean = np.empty(0)

    @property
    def architectures(self) -> Int64[ndarray, "n D"]:
        """The architectures that were added, in order."""
        return self._seen[: self._count]

    def add(self, architecture: Int64[ndarray, "D"]) -> None:
        """Add an architecture that has not been added before."""
        n = self._count
        if n == len(self._seen):
            self._grow()
        factor = self._factor[:n, :n]
        row = factor @ self._kernel(architecture[None], self._seen[:n])[0]
        scale = 1 / np.sqrt(1 + self._noise - row @ row)
        self._factor[n, :n] = -scale * (row @ factor)
        self._factor[n, n] = scale
        self._precision[: n + 1] += self._factor[n, : n + 1] ** 2
        self._seen[n] = architecture
        self._count = n + 1

    def fit(self, values: Float64[ndarray, "n M"]) -> Float64[ndarray, "M"]:
        """Fit the values of all architectures, in the order in which they were added.

        Returns the standard error of each value, by leave-one-out cross-validation (ibid., eq. 5.12).
        """
        n = self._count
        factor = self._factor[:n, :n]
        self._mean = values.mean(0)
        self._weights = factor.T @ (factor @ (values - self._mean))
        left_out = self._weights / self._precision[:n, None]
        error: Float64[ndarray, "M"] = np.sqrt((left_out**2).mean(0))
        return error

    def predict(self, architectures: Int64[ndarray, "n D"]) -> Float64[ndarray, "n M"]:
        """Expected values of any architectures."""
        near = self._kernel(architectures, self._seen[: self._count])
        predicted: Float64[ndarray, "n M"] = self._mean + near @ self._weights
        return predicted

    def _kernel(
        self, ours: Int64[ndarray, "n D"], theirs: Int64[ndarray, "m D"]
    ) -> Float64[ndarray, "n m"]:
        differing = np.zeros((len(ours), len(theirs)), np.int64)
        for one, other in zip(ours.T, theirs.T, strict=True):
            differing += one[:, None] != other
        correlation: Float64[ndarray, "n m"] = self._correlation[differing]
        return correlation

    def _grow(self) -> None:
        """Make room for twice as many architectures."""
        old, new = len(self._seen), max(64, 2 * len(self._seen))
        self._seen = np.pad(self._seen, ((0, new - old), (0, 0)))
        self._factor = np.pad(self._factor, (0, new - old))
        self._precision = np.pad(self._precision, (0, new - old))
