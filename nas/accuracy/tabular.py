"""Accuracy of a whole space, as arrays indexed by the number of an architecture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from edgenas_core.types.architectures import Enumerable
from edgenas_core.types.kind import Kind
from nas.accuracy.base import Accuracies, Split


@final
@dataclass(frozen=True)
class TabularAccuracy:
    """A lookup that has an answer for every architecture of its space."""

    space: Enumerable
    source: str
    description: str
    kind: Kind
    split: Split
    searched: Float64[ndarray, "size"]  # fractions, on the split that is searched on
    tested: Float64[ndarray, "size"]  # fractions, on the test split; NaN where there are none
    sds: Float64[ndarray, "size"] | None = None  # of `searched`, where they are predictions
    is_predicted: Bool[ndarray, "size"] | None = (
        None  # where a model fills the table; None: nowhere
    )
    instant: bool = True

    def answer(self, architectures: Int64[ndarray, "*n D"]) -> Accuracies:
        """Top-1 accuracy on the split that is searched on.

        Raises:
          IndexError: if an architecture lies outside the space.
        """
        numbers = self.space.numbers(architectures)
        fraction = np.asarray(self.searched[numbers])
        kind = np.full(fraction.shape, self.kind, np.int8)
        if self.is_predicted is not None:
            kind = np.where(self.is_predicted[numbers], np.int8(Kind.regression), kind)
        return Accuracies(fraction, kind)

    def known(self, architectures: Int64[ndarray, "*n D"]) -> Bool[ndarray, "*n"]:
        """Return True everywhere."""
        return np.ones(architectures.shape[:-1], bool)

    def test(self, architectures: Int64[ndarray, "*n D"]) -> Float64[ndarray, "*n"]:
        """Top-1 accuracy on the test split.

        Raises:
          IndexError: if an architecture lies outside the space.
        """
        return np.asarray(self.tested[self.space.numbers(architectures)])

    def sd(
        self, architectures: Int64[ndarray, "*n D"], fraction: Float64[ndarray, "*n"]
    ) -> Float64[ndarray, "*n"]:
        """Standard deviation of the true accuracy around an answer; NaN if it is not known."""
        if self.sds is None:
            return np.full_like(fraction, np.nan)
        return np.asarray(self.sds[self.space.numbers(architectures)])
