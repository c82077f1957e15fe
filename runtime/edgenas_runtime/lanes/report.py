"""Report of a run of several networks: latencies, deadline misses, use of the lanes.

Metrics of a schedule are its makespan, latencies and missed deadlines. A request that did not complete misses
its deadline, and is excluded from latencies and finish times.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from jaxtyping import Float64
from numpy import ndarray
from torch import Tensor

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


@final
@dataclass(frozen=True)
class Report:
    """Result of a run; `print` shows it as a small table."""

    outputs: tuple[Any, ...]
    """Output of each network's last inference, as its module returns it, or the error that it raised."""
    names: tuple[str, ...]
    latencies: tuple[LatencyPercentiles, ...]
    """Arrival to completion, by network."""
    makespan_ms: float
    misses: int
    """Number of inferences that ended after their deadline or did not complete."""
    inferences: int
    """Number of requested inferences, over all networks."""
    lane_use: dict[str, float]
    """Share of the makespan in which each lane ran a job."""
    schedule: Schedule
    assumed_shapes: tuple[tuple[int, ...], ...] = ()
    """Shapes of the random inputs, if none were given."""
    disturbances: tuple[str, ...] = ()
    """Disturbances by other processes or the clock, a line each; times may be too long if there are any."""

    def __str__(self) -> str:
        lines = [f"{'network':24}{'p50 ms':>10}{'p99 ms':>10}{'worst ms':>10}"]
        lines += [
            f"{name:24}{times.p50_ms:10.2f}{times.p99_ms:10.2f}{times.worst_ms:10.2f}"
            for name, times in zip(self.names, self.latencies, strict=True)
        ]
        use = ", ".join(f"{name} {share:.0%}" for name, share in self.lane_use.items())
        ends = f"makespan {self.makespan_ms:.2f} ms, {self.misses} of {self.inferences} inferences late"
        lines += [ends, f"lanes: {use}"]
        if self.assumed_shapes:
            shapes = ", ".join("x".join(map(str, shape)) for shape in self.assumed_shapes)
            lines.append(f"assumed input shapes: {shapes}")
        if self.disturbances:
            lines.append(
                f"the machine was busy, times may be too long: {'; '.join(self.disturbances)}"
            )
        lines.append("p50, p99: 50 % and 99 % of the inferences took no longer")
        return "\n".join(lines)


def report_of(
    schedule: Schedule, results: Sequence[Tensor | BaseException], assumed: Sequence[Any]
) -> Report:
    """Summarise a run.

    `assumed` are the random inputs, if none were given.
    """
    whole_ms = makespan_ms(schedule)
    networks = range(len(schedule.chains))
    last = {request.network: i for i, request in enumerate(schedule.requests)}
    return Report(
        outputs=tuple(
            results[last[network]] if network in last else CancelledError("no request")
            for network in networks
        ),
        names=tuple(chain.name for chain in schedule.chains),
        latencies=tuple(latency(schedule, network) for network in networks),
        makespan_ms=whole_ms,
        misses=deadline_misses(schedule),
        inferences=len(schedule.requests),
        lane_use={
            lane.name: sum(ran.end_ms - ran.start_ms for ran in schedule.of_lane(i))
            / max(whole_ms, 1e-9)
            for i, lane in enumerate(schedule.lanes)
        },
        schedule=schedule,
        assumed_shapes=tuple(tuple(x.shape) for x in assumed),
    )
