"""What live boards are expected to take for networks that they have not timed."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from edgenas_core.types.errors import UserError


def layer_work(
    predict_ms: Callable[[Int64[ndarray, "D"]], float],
    architectures: Int64[ndarray, "n D"],
    networks: Int64[ndarray, "n"],
    flops: Float64[ndarray, "n"],
    until_s: float,
) -> Float64[ndarray, "n"]:
    """Milliseconds that a model predicts at one side of each network, at the others in proportion to `flops`.

    A prediction takes an export: what is left when the time is over is in proportion to all others.

    Args:
      predict_ms: by the device's layers.
      architectures: rows, those to predict first at the beginning.
      networks: the same number for rows that differ in their side alone.
      flops: multiply-accumulates.
      until_s: end of the time, by `time.monotonic`.
    """
    rates = np.full(len(networks), np.nan)
    for number in dict.fromkeys(networks.tolist()):
        if time.monotonic() >= until_s:
            break
        alike = np.flatnonzero(networks == number)
        middle = alike[len(alike) // 2]
        with suppress(UserError):  # as timing it will say, if it comes to that
            rates[alike] = predict_ms(architectures[middle]) / flops[middle]
    left = np.isnan(rates)
    rates[left] = 1.0 if left.all() else np.nanmedian(rates)
    return np.asarray(rates * flops)


def expected_ms(
    networks: Int64[ndarray, "n"], work: Float64[ndarray, "n"], measured_ms: Float64[ndarray, "n"]
) -> Float64[ndarray, "n"]:
    """Latencies in proportion to work, by what was measured of the same network, else of all.

    Work is predicted milliseconds, or multiply-accumulates; NaN as long as nothing was measured.
    """
    rate = measured_ms / work
    if np.isnan(rate).all():
        return np.full(len(networks), np.nan)
    rates = np.full(len(networks), np.nanmedian(rate))
    for number in np.unique(networks):
        same = networks == number
        if not np.isnan(rate[same]).all():
            rates[same] = np.nanmedian(rate[same])
    return np.asarray(rates * work)
