"""Fewer points that look the same: one for each spot of the chart that holds any."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

_FINEST = 256


def spread(
    x: Float64[ndarray, "n"], y: Float64[ndarray, "n"], at_most: int
) -> Int64[ndarray, "kept"]:
    """Positions of the points to draw: all, or the first of each spot of the finest grid that does.

    A point with a NaN is never drawn.
    """
    finite = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
    if len(finite) <= at_most:
        return finite
    kept = finite
    side = _FINEST
    while len(kept) > at_most:
        spots = _spots(x[finite], side) * (side + 1) + _spots(y[finite], side)
        kept = finite[np.sort(np.unique(spots, return_index=True)[1])]
        side = side * 3 // 4
    return kept


def _spots(values: Float64[ndarray, "n"], side: int) -> Int64[ndarray, "n"]:
    low, high = values.min(), values.max()
    width = (high - low) or 1.0
    spots: Int64[ndarray, "n"] = ((values - low) / width * side).astype(np.int64)
    return spots
