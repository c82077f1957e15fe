"""Noise of a latency table, from the networks that were measured twice, as stored in its origin."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from benchmarks.studies.scenarios.order import FEWEST_REPEATS, Noise
from edgenas_core.files.keyed_table import origin_beside
from edgenas_core.machine.timing import Statistic
from latency.base import Space
from latency.devices.measured import device_named, measured_on
from latency.devices.registry import TimedDevice

_NORMAL_MEDIAN = 0.6745
"""Median of the absolute value of a normal variable, in standard deviations."""


def noise_of(space: Space, device: str) -> Noise | None:
    """Noise of single measurements of a device, in the scenario and of the statistic of its id.

    None if its table has no origin beside it, or the origin has too few repeats.

    Raises:
      UserError: if the table is malformed.
    """
    timed = device_named(space, device)
    measured = measured_on(space, timed)
    origin = {} if measured is None else origin_beside(measured.path)
    try:
        differences = _differences(origin, timed)
    except (AttributeError, KeyError, TypeError, ValueError):
        return None  # not written by nas.measure
    sound = len(differences) >= FEWEST_REPEATS and bool((differences > -1).all())
    return Noise(np.log1p(differences)) if sound else None


def _differences(origin: dict[str, Any], device: TimedDevice) -> Float64[ndarray, " n"]:
    """Relative differences of repeats; normally distributed ones if only their median is stored."""
    each = origin.get("repeats_relative_differences")
    if each is not None:
        return np.array(each[device.statistic.value], float)
    count = int(origin["repeats"])
    if device.statistic is not Statistic.median or count < FEWEST_REPEATS:
        return np.empty(0)
    from scipy.stats import norm  # noqa: PLC0415 - half a second that a look-up does not need

    spread = float(origin["repeats_median_relative_difference"]) / _NORMAL_MEDIAN
    scores = norm.ppf((np.arange(count) + 0.5) / count)
    return np.asarray(spread * scores / scores.std())
