"""Report of a run of several networks: latencies, throughput, slowdowns, deadline misses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any, final

from torch import Tensor

from runtime.scheduling.bound import lower_bound_ms
from runtime.scheduling.metrics import (
    LatencyPercentiles,
    antt,
    deadline_misses,
    finish_spread_ms,
    jain_fairness,
    latency,
    makespan_ms,
    slowdowns,
    stp,
)
from runtime.scheduling.schedule import Schedule

_DISPATCH_MS = 0.1
"""Time that the dispatching thread may need per job, to put it and to handle its end."""


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
    bound_ms: float
    """Lower bound on the makespan of any policy if jobs took as long as alone; they may be faster."""
    misses: int
    """Number of inferences that ended after their deadline or did not complete."""
    inferences: int
    """Number of requested inferences, over all networks."""
    finish_spread_ms: float
    """Time between the first and the last network to finish."""
    alone_ms: tuple[float, ...]
    """Predicted time of one inference alone, each job on its fastest lane, by network."""
    slowdowns: tuple[float, ...]
    """Mean latency over time alone, by network."""
    stp: float
    """System throughput: sum of the networks' normalised progress."""
    antt: float
    """Mean slowdown."""
    fairness: float
    """Jain's fairness of progress: 1 if all slowdowns are equal."""
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
        ends = (
            f"makespan {self.makespan_ms:.2f} ms ({self.bound_ms:.2f} is the least by times taken alone), "
            f"{self.misses} of {self.inferences} inferences late"
        )
        lines += [ends, *self._sharing(), f"lanes: {use}"]
        if self.assumed_shapes:
            shapes = ", ".join("x".join(map(str, shape)) for shape in self.assumed_shapes)
            lines.append(f"assumed input shapes: {shapes}")
        if self.disturbances:
            lines.append(
                f"the machine was busy, times may be too long: {'; '.join(self.disturbances)}"
            )
        lines.append("p50, p99: 50 % and 99 % of the inferences took no longer")
        return "\n".join(lines)

    @property
    def is_tiny(self) -> tuple[bool, ...]:
        """Whether each network's mean job is shorter than its dispatch, so slowdowns mean nothing."""
        return tuple(
            alone_ms < _DISPATCH_MS * len(chain)
            for alone_ms, chain in zip(self.alone_ms, self.schedule.chains, strict=True)
        )

    def _sharing(self) -> Iterator[str]:
        """Slowdowns, throughput and fairness, unless jobs are too small for them to mean anything."""
        spread = f"{self.finish_spread_ms:.2f} ms between the first and the last network to finish"
        if any(self.is_tiny):
            networks = zip(self.names, self.alone_ms, self.is_tiny, strict=True)
            tiny = ", ".join(f"{ms:.3f} ms ({name})" for name, ms, is_tiny in networks if is_tiny)
            yield spread
            yield (
                f"no slowdowns: an inference alone takes {tiny}, less than dispatching its jobs, "
                f"up to {_DISPATCH_MS:g} ms each"
            )
            return
        slowed = ", ".join(f"{slowdown:.2f}" for slowdown in self.slowdowns)
        yield (
            f"slowdown {slowed} (mean {self.antt:.2f}), throughput {self.stp:.2f} networks, "
            f"fairness {self.fairness:.2f}, {spread}"
        )


def report_of(
    schedule: Schedule, results: Sequence[Tensor | BaseException], assumed: Sequence[Any]
) -> Report:
    """Summarise a run.

    `assumed` are the random inputs, if none were given.
    """
    whole_ms = makespan_ms(schedule)
    networks = range(len(schedule.chains))
    alone_ms = tuple(
        max(sum(map(min, chain.predicted_ms)), 1e-9)  # a clock may not resolve an empty network
        for chain in schedule.chains
    )
    slowed = slowdowns(schedule, alone_ms)
    last = {request.network: i for i, request in enumerate(schedule.requests)}
    return Report(
        outputs=tuple(
            results[last[network]] if network in last else CancelledError("no request")
            for network in networks
        ),
        names=tuple(chain.name for chain in schedule.chains),
        latencies=tuple(latency(schedule, network) for network in networks),
        makespan_ms=whole_ms,
        bound_ms=lower_bound_ms(schedule.chains, schedule.requests),
        misses=deadline_misses(schedule),
        inferences=len(schedule.requests),
        finish_spread_ms=finish_spread_ms(schedule),
        alone_ms=alone_ms,
        slowdowns=tuple(map(float, slowed)),
        stp=stp(slowed),
        antt=antt(slowed),
        fairness=jain_fairness(slowed),
        lane_use={
            lane.name: sum(ran.end_ms - ran.start_ms for ran in schedule.of_lane(i))
            / max(whole_ms, 1e-9)
            for i, lane in enumerate(schedule.lanes)
        },
        schedule=schedule,
        assumed_shapes=tuple(tuple(x.shape) for x in assumed),
    )
