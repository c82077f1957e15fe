"""What came of a run of several networks, as a user reads it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import final

from torch import Tensor

from runtime.scheduling.bound import lower_bound_ms
from runtime.scheduling.metrics import (
    Latency,
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

_PLACING_MS = 0.1
"""What the one thread that places all may need for a job, to put it and to hear of its end."""


@final
@dataclass(frozen=True)
class Report:
    """What came of a run; printed, it is a small table."""

    outputs: tuple[Tensor | BaseException, ...]
    """Of each network's last inference, or what that raised."""
    names: tuple[str, ...]
    latencies: tuple[Latency, ...]
    """Of each network, from arrival to completion."""
    makespan_ms: float
    bound_ms: float
    """What no policy could beat, by the times of the jobs alone."""
    misses: int
    """Inferences that ended after their deadline, or never."""
    inferences: int
    """Asked for, of all networks together."""
    finish_spread_ms: float
    """Between the networks that finish first and last."""
    alone_ms: tuple[float, ...]
    """Of an inference of each network alone, each job on its quickest lane."""
    slowdowns: tuple[float, ...]
    """Of each network: its mean latency over its time alone."""
    stp: float
    """System throughput: networks' worth of progress at once."""
    antt: float
    """Mean slowdown."""
    fairness: float
    """Jain's, of the networks' progress: 1 if all are slowed alike."""
    lane_use: dict[str, float]
    """Share of the makespan in which each lane ran a job."""
    schedule: Schedule
    assumed_shapes: tuple[tuple[int, ...], ...] = ()
    """Of the inputs, where none were given."""

    def __str__(self) -> str:
        lines = [f"{'network':24}{'p50 ms':>10}{'p99 ms':>10}{'worst ms':>10}"]
        lines += [
            f"{name:24}{one.p50_ms:10.2f}{one.p99_ms:10.2f}{one.worst_ms:10.2f}"
            for name, one in zip(self.names, self.latencies, strict=True)
        ]
        use = ", ".join(f"{name} {share:.0%}" for name, share in self.lane_use.items())
        ends = (
            f"makespan {self.makespan_ms:.2f} ms (no schedule beats {self.bound_ms:.2f}), "
            f"{self.misses} of {self.inferences} inferences late"
        )
        told = [*lines, ends, *self._shared(), f"lanes: {use}"]
        if self.assumed_shapes:
            shapes = ", ".join("x".join(map(str, shape)) for shape in self.assumed_shapes)
            told.append(f"inputs, assumed: {shapes}")
        told.append("p50, p99: half, and 99 of 100, of the inferences took no longer")
        return "\n".join(told)

    @property
    def is_tiny(self) -> tuple[bool, ...]:
        """Whether a job of each network takes less than to place it: a slowdown is that thread's."""
        return tuple(
            alone_ms < _PLACING_MS * len(chain)
            for alone_ms, chain in zip(self.alone_ms, self.schedule.chains, strict=True)
        )

    def _shared(self) -> Iterator[str]:
        """How the lanes were shared, as far as that can be told."""
        spread = f"{self.finish_spread_ms:.2f} ms between first and last"
        if any(self.is_tiny):
            told = zip(self.names, self.alone_ms, self.is_tiny, strict=True)
            tiny = ", ".join(f"{ms:.3f} ms ({name})" for name, ms, is_tiny in told if is_tiny)
            yield spread
            yield (
                f"slowdowns are not told: alone, an inference takes {tiny}, less than to place its "
                f"jobs may take, {_PLACING_MS:g} ms each"
            )
            return
        slowed = ", ".join(f"{one:.2f}" for one in self.slowdowns)
        yield (
            f"slowdown {slowed} (mean {self.antt:.2f}), throughput {self.stp:.2f} networks, "
            f"fairness {self.fairness:.2f}, {spread}"
        )


def report_of(
    schedule: Schedule, results: Sequence[Tensor | BaseException], assumed: Sequence[Tensor]
) -> Report:
    """What a schedule came to.

    Args:
      schedule: of a run.
      results: of each request.
      assumed: the inputs, where none were given.
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
            results[last[network]] if network in last else CancelledError("never asked for")
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
            lane.name: sum(one.end_ms - one.start_ms for one in schedule.of_lane(i))
            / max(whole_ms, 1e-9)
            for i, lane in enumerate(schedule.lanes)
        },
        schedule=schedule,
        assumed_shapes=tuple(tuple(x.shape) for x in assumed),
    )
