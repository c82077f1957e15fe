"""Accuracy of the whole space as arrays indexed by architecture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from nas.accuracy.base import Split


@final
@dataclass(frozen=True)
class TabularAccuracy:
    """A lookup: every architecture of the space has an answer."""

    source: str
    description: str
    split: Split
    searched: Float64[ndarray, "5 5 5 5 5 5"]
    tested: Float64[ndarray, "5 5 5 5 5 5"]
    tabular: bool = True

    def __call__(self, architectures: Int64[ndarray, "*n 6"]) -> Float64[ndarray, "*n"]:
        """Top-1 accuracy on the split that is searched on, a fraction."""
        return np.asarray(self.searched[tuple(np.moveaxis(architectures, -1, 0))])

    def known(self, architectures: Int64[ndarray, "*n 6"]) -> Bool[ndarray, "*n"]:
        """All of them."""
        return np.ones(architectures.shape[:-1], bool)

    def test(self, architectures: Int64[ndarray, "*n 6"]) -> Float64[ndarray, "*n"]:
        """Top-1 accuracy on the test split, a fraction."""
        return np.asarray(self.tested[tuple(np.moveaxis(architectures, -1, 0))])
