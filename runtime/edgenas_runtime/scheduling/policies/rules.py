"""Policies that decide by a simple rule."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

from edgenas_runtime.scheduling.policies.base import Placement, PlacementContext, Policy

Delays = Sequence[Sequence[float]]
"""`sync_ms[a][b]`: delay of a job on lane b if the previous job of its network ran on lane a."""


@final
@dataclass(frozen=True)
class QueueTime(Policy):
    """The core selector of the CPU-GPU co-scheduler, figure 4-5 of its source.

        if the previous job of this network ran on the GPU: T_c += T_s
        if QTime_gpu + T_g >= QTime_cpu + T_c: CPU, QTime_cpu += T_c
        else: GPU, QTime_gpu += T_g

    With more than two lanes: the lane with the smallest queue time including the job; ties go to a
    synchronous lane, then to the first. T_s is added on every synchronous lane.
    """

    sync_ms: float = 0.0
    """T_s, the time to synchronise with a stream of the GPU."""

    def __post_init__(self) -> None:
        """Check the time.

        Raises:
          ValueError: if it is negative or not finite.
        """
        if not 0 <= self.sync_ms < math.inf:
            raise ValueError(f"sync_ms={self.sync_ms} must be at least 0 and finite")

    def place(self, context: PlacementContext) -> Placement:
        """Return the lane for this job."""
        lanes, previous = context.lanes, context.previous_lane
        after_gpu = previous is not None and lanes[previous].asynchronous
        times_ms = [
            time_ms + (self.sync_ms if after_gpu and not lane.asynchronous else 0.0)
            for lane, time_ms in zip(lanes, context.predicted_ms, strict=True)
        ]
        best = min(
            range(len(lanes)),
            key=lambda i: (context.queue_ms[i] + times_ms[i], lanes[i].asynchronous),
        )
        return Placement(best, times_ms[best])


@final
@dataclass(frozen=True)
class EarliestFinish(Policy):
    """Chooses the lane on which the job is predicted to end first; ties go to the first lane."""

    sync_ms: Delays | None = None

    def place(self, context: PlacementContext) -> Placement:
        """Return the lane for this job."""
        times_ms = [
            time_ms + delay_ms(self.sync_ms, context.previous_lane, lane)
            for lane, time_ms in enumerate(context.predicted_ms)
        ]
        starts_ms = [max(backlog_ms, context.ready_ms) for backlog_ms in context.backlog_ms]
        best = min(range(len(times_ms)), key=lambda i: starts_ms[i] + times_ms[i])
        return Placement(best, times_ms[best])


@final
@dataclass(frozen=True)
class OneLane(Policy):
    """Puts all jobs on one lane."""

    lane: int = 0

    def place(self, context: PlacementContext) -> Placement:
        """Return the lane for this job."""
        is_there = 0 <= self.lane < len(context.lanes)  # else the dispatcher refuses it
        return Placement(self.lane, context.predicted_ms[self.lane] if is_there else 0.0)


@final
@dataclass(frozen=True)
class ByNetwork(Policy):
    """A fixed lane for each network, assigned round-robin.

    A job that its lane cannot run goes to the lane fastest for it.
    """

    def place(self, context: PlacementContext) -> Placement:
        """Return the lane for this job."""
        times_ms = context.predicted_ms
        lane = context.job.network % len(context.lanes)
        if math.isinf(times_ms[lane]):
            lane = min(range(len(times_ms)), key=times_ms.__getitem__)
        return Placement(lane, times_ms[lane])


def delay_ms(sync_ms: Delays | None, source: int | None, target: int) -> float:
    """Return the delay of a job on lane `target` whose previous job ran on lane `source`."""
    return 0.0 if sync_ms is None or source is None else sync_ms[source][target]


POLICIES: dict[str, Callable[[], Policy]] = {
    "earliest_finish": EarliestFinish,
    "queue_time": QueueTime,
    "by_network": ByNetwork,
    "one_lane": OneLane,
}
