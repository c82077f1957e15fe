"""Non-negative least squares of relative errors."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64
from numpy import ndarray
from scipy.optimize import nnls


def relative_fit(
    columns: Float64[ndarray, "n k"], measured: Float64[ndarray, " n"], least: float = 0.0
) -> list[float]:
    """Weights of the columns, none negative; errors are relative to at least `least`."""
    matrix = columns / np.maximum(np.abs(measured), least)[:, None]
    scale = np.abs(matrix).max(axis=0)  # columns differ by ten orders of magnitude
    scale[scale == 0] = 1.0
    weights, _ = nnls(matrix / scale, measured / np.maximum(np.abs(measured), least))
    return [float(weight) for weight in weights / scale]
