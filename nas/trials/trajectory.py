"""Measures of one replica's sequence of samples."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

WINDOW = 100
BINS = 50
"""Bins of a curve, at most: a window each at 5,000 samples."""
LEAST_IN_BIN = 20
BAND = 0.8
"""Share of a bin's or a window's samples, the middle ones, that a band holds."""


def bin_edges(samples: int) -> Int64[ndarray, "bins_and_1"]:
    """Beginnings of the bins of so many samples, and the end of the last one."""
    count = min(BINS, max(1, samples // LEAST_IN_BIN))
    return np.arange(count + 1) * samples // count


def sample_within_limit(latency_ms: Float64[ndarray, "n"], limit_ms: float) -> int | None:
    """Samples after which the mean latency (or another cost, of another limit) of a sliding window stays within the limit.

    The window holds the last 100 samples, so 100 is the least there is; None if the mean is
    beyond the limit at the end, or there are fewer samples than that.
    """
    if len(latency_ms) < WINDOW:
        return None
    sums = np.cumsum(np.concatenate([[0.0], latency_ms]))
    means = (sums[WINDOW:] - sums[:-WINDOW]) / WINDOW
    # differences of sums round: a mean that is the limit must not count as beyond it
    beyond = np.flatnonzero(means > limit_ms * (1 + 1e-9))
    last = WINDOW - 1 if not len(beyond) else WINDOW + int(beyond[-1])
    return last + 1 if last < len(latency_ms) else None


def best_feasible(
    accuracy: Float64[ndarray, "n"],
    latency_ms: Float64[ndarray, "n"],
    limit_ms: float,
    also: Bool[ndarray, "n"] | None = None,
) -> int | None:
    """Position of the first most accurate sample within the limit; None if there is none.

    `also` says which samples are within the further limits.
    """
    within = latency_ms <= limit_ms
    if also is not None:
        within &= also
    if not within.any():
        return None
    return int(np.argmax(np.where(within, accuracy, -np.inf)))
