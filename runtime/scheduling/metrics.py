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
    return max((one.end_ms for one in schedule.executed), default=begin_ms) - begin_ms


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
class Latency:
    """Latency percentiles of one network; NaN if no request completed."""

    p50_ms: float
    p99_ms: float
    worst_ms: float


def latency(schedule: Schedule, network: int) -> Latency:
    """Return linearly interpolated percentiles; p99 of under 100 samples is close to the worst."""
    samples_ms = latencies_ms(schedule, network)
    if len(samples_ms) == 0:
        return Latency(np.nan, np.nan, np.nan)
    return Latency(*map(float, np.percentile(samples_ms, [50, 99, 100])))


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
    _check_alone(schedule, alone_ms)
    means_ms = [
        samples_ms.mean() if len(samples_ms := latencies_ms(schedule, i)) else np.nan
        for i in range(len(schedule.chains))
    ]
    slowed: Float64[ndarray, "networks"] = np.array(means_ms) / np.array(alone_ms)
    return slowed


def turnaround_slowdowns(
    schedule: Schedule, alone_ms: Sequence[float]
) -> Float64[ndarray, "networks"]:
    """Return first arrival to last completion over time alone, for each network.

    This is the program turnaround of Eyerman & Eeckhout, for closed workloads, where an inference
    also waits for earlier ones of its own network. NaN if a request did not complete, or the network
    has none.

    `alone_ms` is the time for all requests of each network, alone on the machine.

    Raises:
      ValueError: if `alone_ms` does not hold one positive time per network.
    """
    _check_alone(schedule, alone_ms)
    first_ms = np.full(len(alone_ms), np.nan)
    last_ms = np.full(len(alone_ms), np.nan)
    for request, end_ms in zip(schedule.requests, schedule.completion_ms, strict=True):
        k = request.network
        first_ms[k] = np.fmin(first_ms[k], request.arrival_ms)
        last_ms[k] = np.fmax(last_ms[k], np.inf if end_ms is None else end_ms)
    last_ms[np.isinf(last_ms)] = np.nan
    slowed: Float64[ndarray, "networks"] = (last_ms - first_ms) / np.array(alone_ms)
    return slowed


def stp(slowdowns: Float64[ndarray, "networks"]) -> float:
    """Return system throughput (STP): the sum of the networks' normalised progress; higher is better.

    Eyerman & Eeckhout, IEEE Micro 28(3), 2008.
    """
    return float((1 / slowdowns).sum())


def _check_alone(schedule: Schedule, alone_ms: Sequence[float]) -> None:
    if len(alone_ms) != len(schedule.chains) or not all(ms > 0 for ms in alone_ms):
        raise ValueError(
            f"alone_ms={[*alone_ms]} must hold one time above 0 for each of the "
            f"{len(schedule.chains)} networks"
        )


def antt(slowdowns: Float64[ndarray, "networks"]) -> float:
    """Return average normalised turnaround time (ANTT), of the same paper; 1 means no slowdown."""
    return float(slowdowns.mean())


def jain_fairness(slowdowns: Float64[ndarray, "networks"]) -> float:
    """Return Jain's fairness of progress: 1 if slowdowns are equal, 1 / n if one network gets all.

    Jain, Chiu & Hawe, DEC-TR-301, 1984.
    """
    progress = 1 / slowdowns
    return float(progress.sum() ** 2 / (len(progress) * (progress**2).sum()))


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
    end_ms = max((one.end_ms for one in schedule.executed), default=0.0)
    edges_ms = np.arange(0.0, end_ms + bin_ms, bin_ms)
    busy_ms = np.zeros((len(schedule.lanes), len(edges_ms) - 1))
    for one in schedule.executed:
        inside = np.minimum(one.end_ms, edges_ms[1:]) - np.maximum(one.start_ms, edges_ms[:-1])
        busy_ms[one.lane] += np.maximum(inside, 0.0)
    shares: Float64[ndarray, "lanes bins"] = busy_ms / bin_ms
    return shares
