"""Timing faults in a measured table: architectures that took implausibly little time.

A time is implausible if it is far below what a linear model of the device predicts, in robust standard
deviations of its residuals, and far below the median of the architectures that are the same network,
where there are at least two others. Public tables hold such times, and as the accurate networks among
them look feasible, they would win nearly every search.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from latency.base import Space
from latency.devices.registry import TimedDevice
from latency.models.regression import (
    FEWEST_MEASURED,
    disconnected,
    features_timed,
    fit,
    held_out_ms,
)

FEWEST = 1000
"""Measured architectures from which a table is judged: below, a model is not sure enough."""

_DEVIATIONS = 6.0  # of the model's residuals
_LEAST = 0.25  # logarithm of the factor below the model
_BELOW_TWINS = 0.2  # logarithm of the factor below equal networks
_NORMAL_MAD = 1.4826  # standard deviation of a normal over its median absolute deviation
_ALL = slice(None)
_FIRST = math.log(5)  # logarithm of the factor below the median from which on it is at first
_ROUNDS = 20  # of leaving out


def implausibly_fast(
    space: Space,
    device: TimedDevice,
    architectures: Int64[ndarray, "n D"],
    latency_ms: Float64[ndarray, " n"],
) -> Bool[ndarray, " n"]:
    """True where a time is a fault; NaN is none, nor is an output that needs no input."""
    is_fast = np.zeros(len(latency_ms), bool)
    rows = np.flatnonzero(np.isfinite(latency_ms))
    if len(rows) < FEWEST:
        return is_fast
    features = features_timed(space, device, architectures[rows])
    works = np.logical_not(disconnected(space, features))
    rows, features = rows[works], features[works]
    log_ms = np.log(latency_ms[rows])
    predicted_ms = fit(features, latency_ms[rows]).predict_ms(features)
    is_fast[rows] = _faults(space, architectures[rows], log_ms, np.log(predicted_ms))
    return is_fast


def faster_than_others_say(
    space: Space, architectures: Int64[ndarray, "n D"], latency_ms: Float64[ndarray, " n"]
) -> Bool[ndarray, " n"]:
    """True where a time is a fault by those of other networks, for times as they are being measured.

    Each network is predicted by a fit on none of its group, and on no time that looks like a fault, so
    that many faults do not hide each other; of fewer than `FEWEST_MEASURED`, none is one.
    """
    is_fast = np.zeros(len(latency_ms), bool)
    if len(latency_ms) < FEWEST_MEASURED:
        return is_fast
    features = space.features(architectures)
    rows = np.flatnonzero(np.logical_not(disconnected(space, features)))
    if len(rows) < FEWEST_MEASURED:
        return is_fast
    timed = architectures[rows]
    log_ms, groups = np.log(latency_ms[rows]), space.groups(timed)
    trusted = log_ms > np.median(log_ms) - _FIRST  # small networks come back in the next round
    for _ in range(_ROUNDS):
        predicted = _predicted(features[rows], latency_ms[rows], groups, trusted)
        residual = log_ms - predicted
        low = np.median(residual[trusted]) - max(_LEAST, _DEVIATIONS * _spread(residual[trusted]))
        before, trusted = trusted, residual > low
        if trusted.sum() < FEWEST_MEASURED // 2 or np.array_equal(before, trusted):
            break
    is_fast[rows] = _faults(space, timed, log_ms, predicted, before)
    return is_fast


def _predicted(
    features: Float64[ndarray, "n features"],
    latency_ms: Float64[ndarray, " n"],
    groups: Int64[ndarray, " n"],
    trusted: Bool[ndarray, " n"],
) -> Float64[ndarray, " n"]:
    """Logarithm of each time by a fit on trusted ones of other groups."""
    predicted_ms = fit(features[trusted], latency_ms[trusted]).predict_ms(features)
    predicted_ms[trusted] = held_out_ms(features[trusted], latency_ms[trusted], groups[trusted])
    return np.asarray(np.log(predicted_ms))


def _spread(residual: Float64[ndarray, " n"]) -> float:
    """Robust standard deviation."""
    return _NORMAL_MAD * float(np.median(np.abs(residual - np.median(residual))))


def _faults(
    space: Space,
    architectures: Int64[ndarray, "n D"],
    log_ms: Float64[ndarray, " n"],
    predicted: Float64[ndarray, " n"],
    trusted: Bool[ndarray, " n"] | slice = _ALL,
) -> Bool[ndarray, " n"]:
    """True where a time is far below both its prediction and its equal networks."""
    residual = log_ms - predicted
    fast = residual < -max(_LEAST, _DEVIATIONS * _spread(residual[trusted]))
    if not fast.any():
        return np.zeros(len(fast), bool)
    below = _below_twins(space.canonical(architectures), log_ms)
    return np.asarray(fast & (np.isnan(below) | (below < -_BELOW_TWINS)))


def _below_twins(
    canonical: Int64[ndarray, "n D"], log_ms: Float64[ndarray, " n"]
) -> Float64[ndarray, " n"]:
    """Logarithm over the median of equal networks; NaN where there are fewer than three of them."""
    _, group, size = np.unique(canonical, axis=0, return_inverse=True, return_counts=True)
    group = group.reshape(-1)
    order = np.lexsort((log_ms, group))
    middle = np.cumsum(size) - size + size // 2
    return np.where(size[group] > 2, log_ms - log_ms[order[middle]][group], np.nan)
