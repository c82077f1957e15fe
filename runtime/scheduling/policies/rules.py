"""The policies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from runtime.network.segment_kind import Kind
from runtime.scheduling.policies.base import Placement, Policy, Situation

Delays = Sequence[Sequence[float]]
"""`sync_ms[a][b]`: what a job on lane b takes longer if the job before it ran on lane a."""


@final
@dataclass(frozen=True)
class QueueTime(Policy):
    """The core selector of the CPU-GPU co-scheduler, figure 4-5 of its source.

        if the previous job of this network ran on the GPU: T_c += T_s
        if QTime_gpu + T_g >= QTime_cpu + T_c: CPU, QTime_cpu += T_c
        else: GPU, QTime_gpu += T_g

    With more lanes than two: the least queue time with the job; among equals a synchronous lane,
    then the first. The time to synchronise is added on every synchronous lane.
    """

    sync_ms: float = 0.0
    """T_s, to wait for a stream of the GPU."""

    def __post_init__(self) -> None:
        """Checks the time.

        Raises:
          ValueError: if it is negative or no number.
        """
        if not 0 <= self.sync_ms < math.inf:
            raise ValueError(f"a time to synchronise of {self.sync_ms} ms")

    def place(self, situation: Situation) -> Placement:
        """The lane for this job."""
        lanes, previous = situation.lanes, situation.previous_lane
        after_gpu = previous is not None and lanes[previous].asynchronous
        times_ms = [
            time_ms + (self.sync_ms if after_gpu and not lane.asynchronous else 0.0)
            for lane, time_ms in zip(lanes, situation.predicted_ms, strict=True)
        ]
        best = min(
            range(len(lanes)),
            key=lambda i: (situation.queue_ms[i] + times_ms[i], lanes[i].asynchronous),
        )
        return Placement(best, times_ms[best])


@final
@dataclass(frozen=True)
class EarliestFinish(Policy):
    """The lane on which the job ends first, as predicted; the first among equals."""

    sync_ms: Delays | None = None
    """None for none."""

    def place(self, situation: Situation) -> Placement:
        """The lane for this job."""
        times_ms = [
            time_ms + delay_ms(self.sync_ms, situation.previous_lane, lane)
            for lane, time_ms in enumerate(situation.predicted_ms)
        ]
        starts_ms = [max(backlog_ms, situation.ready_ms) for backlog_ms in situation.backlog_ms]
        best = min(range(len(times_ms)), key=lambda i: starts_ms[i] + times_ms[i])
        return Placement(best, times_ms[best])


@final
@dataclass(frozen=True)
class OneLane(Policy):
    """Everything to one lane."""

    lane: int = 0

    def place(self, situation: Situation) -> Placement:
        """The lane for this job."""
        return Placement(self.lane, _time_ms(self.lane, situation))


@final
@dataclass(frozen=True)
class ByKind(Policy):
    """A fixed lane a kind of job: convolutions to the GPU, the rest to the CPU.

    A job that its lane cannot run goes to the lane fastest for it.
    """

    lane_of: dict[Kind, int]
    otherwise: int

    def place(self, situation: Situation) -> Placement:
        """The lane for this job."""
        return _fixed(self.lane_of.get(situation.kind, self.otherwise), situation)


@final
@dataclass(frozen=True)
class ByNetwork(Policy):
    """A fixed lane a network: in turn, which is half and half on two lanes.

    A job that its lane cannot run goes to the lane fastest for it.
    """

    def place(self, situation: Situation) -> Placement:
        """The lane for this job."""
        return _fixed(situation.job.network % len(situation.lanes), situation)


def _fixed(lane: int, situation: Situation) -> Placement:
    times_ms = situation.predicted_ms
    if math.isinf(_time_ms(lane, situation)):
        lane = min(range(len(times_ms)), key=times_ms.__getitem__)
    return Placement(lane, _time_ms(lane, situation))


def _time_ms(lane: int, situation: Situation) -> float:
    """Of a lane that may not be there, which the dispatcher then says."""
    times_ms = situation.predicted_ms
    return times_ms[lane] if 0 <= lane < len(times_ms) else 0.0


def delay_ms(sync_ms: Delays | None, source: int | None, target: int) -> float:
    """What a job on lane `target` takes longer because the job before it ran on lane `source`."""
    return 0.0 if sync_ms is None or source is None else sync_ms[source][target]
