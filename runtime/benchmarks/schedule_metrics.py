"""Metrics of a schedule that only experiments report: finish spread, overlap, utilisation."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from edgenas_runtime.scheduling.schedule import Schedule


def finish_spread_ms(schedule: Schedule) -> float:
    """Return the time between the first and the last network to finish its last request."""
    ends_ms: dict[int, float] = {}
    for request, end_ms in zip(schedule.requests, schedule.completion_ms, strict=True):
        if end_ms is not None:
            ends_ms[request.network] = max(ends_ms.get(request.network, end_ms), end_ms)
    return max(ends_ms.values()) - min(ends_ms.values()) if ends_ms else 0.0


def overlap(sequential_ms: float, measured_ms: float, bound_ms: float) -> float:
    """Return the achieved share of the time that parallel execution can save.

    (sequential - measured) / (sequential - bound): 0 for sequential speed, 1 at the bound, negative
    if slower than sequential, above 1 if jobs were faster than the times of the bound. NaN if the bound equals the
    sequential time.

    `sequential_ms` is the time of all jobs one after another on the fastest single lane.
    """
    can_be_saved_ms = sequential_ms - bound_ms
    return (sequential_ms - measured_ms) / can_be_saved_ms if can_be_saved_ms > 0 else np.nan


def utilisation(schedule: Schedule, bin_ms: float) -> Float64[ndarray, "lanes bins"]:
    """Return the busy share of each lane in each time bin, starting at time 0.

    Raises:
      ValueError: if `bin_ms` is not positive and finite.
    """
    if not 0 < bin_ms < np.inf:
        raise ValueError(f"bin_ms={bin_ms} must be above 0 and finite")
    end_ms = max((execution.end_ms for execution in schedule.executed), default=0.0)
    edges_ms = np.arange(0.0, end_ms + bin_ms, bin_ms)
    busy_ms = np.zeros((len(schedule.lanes), len(edges_ms) - 1))
    for execution in schedule.executed:
        inside = np.minimum(execution.end_ms, edges_ms[1:]) - np.maximum(
            execution.start_ms, edges_ms[:-1]
        )
        busy_ms[execution.lane] += np.maximum(inside, 0.0)
    shares: Float64[ndarray, "lanes bins"] = busy_ms / bin_ms
    return shares
