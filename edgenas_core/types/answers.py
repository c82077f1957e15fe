"""Numbers that a user's own code returned, which may be anything."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from edgenas_core.types.errors import UserError


def real_numbers(origin: str, values: Any, shape: tuple[int, ...]) -> Float64[ndarray, "*n"]:
    """Values of the user as a new array; UserError, which begins with the origin, if they are none."""
    try:
        numbers = np.asarray(values)
    except (TypeError, ValueError, RuntimeError):  # RuntimeError: a tensor with a gradient
        numbers = np.empty(())
    if np.ma.isMA(values) or numbers.dtype.kind not in "iuf" or numbers.shape != shape:
        text = " ".join(str(values).split())[:60]
        raise UserError(f"{origin} {text}, not an array of {shape} real numbers")
    return numbers.astype(float)


def require_between(
    origin: str, numbers: Float64[ndarray, "*n"], least: float, most: float, which: Any = True
) -> None:
    """Raise UserError, which begins with the origin, for the first of `which` beyond the bounds, or NaN."""
    wrong = ~((numbers >= least) & (numbers <= most)) & which
    if wrong.any():
        raise UserError(
            f"{origin} {numbers[wrong][0]:g}, which is not between {least:g} and {most:g}"
        )
