"""Combining scores of different units by their ranks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64
from numpy import ndarray


def log_rank_sum(
    scores: Float64[ndarray, "n c"], weights: Sequence[float]
) -> Float64[ndarray, "n"]:
    """Sum over columns of weight * log(rank / n): 0 for a network that is the best by every score.

    A sum of logarithms punishes a network that is bad by one score (AZ-NAS, Lee & Ham, CVPR 2024,
    eq. 11). Equal scores share their mean rank.
    """
    from scipy.stats import rankdata  # noqa: PLC0415 - half a second that a table does not need

    logs = np.log(rankdata(scores, axis=0) / len(scores))
    found: Float64[ndarray, "n"] = logs @ np.asarray(weights)
    return found
