"""Metrics of a schedule: makespan, latency, throughput, fairness.

A request that did not complete misses its deadline and is excluded from latencies and finish times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from runtime.scheduling.schedule import Schedule


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


def finish_spread_ms(schedule: Schedule) -> float:
    """Return the time between the first and the last network to finish its last request."""
    ends_ms: dict[int, float] = {}
    for request, end_ms in zip(schedule.requests, schedule.completion_ms, strict=True):
        if end_ms is not None:
            ends_ms[request.network] = max(ends_ms.get(request.network, end_ms), end_ms)
    return max(ends_ms.values()) - min(ends_ms.values()) if ends_ms else 0.0


def slowdowns(schedule: Schedule, alone_ms: Sequence[float]) -> Float64[ndarray, "networks"]:
    """Return mean latency over time alone for each network; NaN if no request completed.

    Raises:
      ValueError: if `alone_ms` does not hold one positive time per network.
    """
    check_alone(schedule, alone_ms)
    means_ms = [
        samples_ms.mean() if len(samples_ms := latencies_ms(schedule, i)) else np.nan
        for i in range(len(schedule.chains))
    ]
    slowed: Float64[ndarray, "networks"] = np.array(means_ms) / np.array(alone_ms)
    return slowed


def stp(slowdowns: Float64[ndarray, "networks"]) -> float:
    """Return system throughput (STP): the sum of the networks' normalised progress; higher is better.

    Eyerman & Eeckhout, IEEE Micro 28(3), 2008.
    """
    return float((1 / slowdowns).sum())


def antt(slowdowns: Float64[ndarray, "networks"]) -> float:
    """Return average normalised turnaround time (ANTT), of the same paper; 1 means no slowdown."""
    return float(slowdowns.mean())


def jain_fairness(slowdowns: Float64[ndarray, "networks"]) -> float:
    """Return Jain's fairness of progress: 1 if slowdowns are equal, 1 / n if one network gets all.

    Jain, Chiu & Hawe, DEC-TR-301, 1984.
    """
    progress = 1 / slowdowns
    return float(progress.sum() ** 2 / (len(progress) * (progress**2).sum()))


def check_alone(schedule: Schedule, alone_ms: Sequence[float]) -> None:
    """Check the times of the networks alone.

    Raises:
      ValueError: if `alone_ms` does not hold one positive time per network.
    """
    if len(alone_ms) != len(schedule.chains) or not all(ms > 0 for ms in alone_ms):
        raise ValueError(
            f"alone_ms={[*alone_ms]} must hold one time above 0 for each of the "
            f"{len(schedule.chains)} networks"
        )
