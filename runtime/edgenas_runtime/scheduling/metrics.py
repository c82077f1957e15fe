"""Metrics of a schedule: makespan, latency, missed deadlines.

A request that did not complete misses its deadline and is excluded from latencies and finish times.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from edgenas_runtime.scheduling.schedule import Schedule


def makespan_ms(schedule: Schedule) -> float:
    """Return the time from the first arrival to the end of the last job; 0 if nothing ran."""
    begin_ms = min((request.arrival_ms for request in schedule.requests), default=0.0)
    return max((ran.end_ms for ran in schedule.executed), default=begin_ms) - begin_ms


def latencies_ms(schedule: Schedule, network: int) -> Float64[ndarray, "n"]:
    """Return arrival to completion of every completed request of a network."""
    return np.array(
        [
            end_ms - request.arrival_ms
            for request, end_ms in zip(schedule.requests, schedule.completion_ms, strict=True)
            if request.network == network and end_ms is not None
        ]
    )


@final
@dataclass(frozen=True)
class LatencyPercentiles:
    """Latency percentiles of one network; NaN if no request completed."""

    p50_ms: float
    p99_ms: float
    worst_ms: float


def latency(schedule: Schedule, network: int) -> LatencyPercentiles:
    """Return linearly interpolated percentiles; p99 of under 100 samples is close to the worst."""
    samples_ms = latencies_ms(schedule, network)
    if len(samples_ms) == 0:
        return LatencyPercentiles(np.nan, np.nan, np.nan)
    return LatencyPercentiles(*map(float, np.percentile(samples_ms, [50, 99, 100])))


def deadline_misses(schedule: Schedule) -> int:
    """Count the requests with a deadline that ended after it or did not complete."""
    return sum(
        np.isfinite(request.deadline_ms)
        and (end_ms is None or end_ms > request.arrival_ms + request.deadline_ms)
        for request, end_ms in zip(schedule.requests, schedule.completion_ms, strict=True)
    )
