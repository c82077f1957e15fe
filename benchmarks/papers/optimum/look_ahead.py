"""A policy that simulates the consequences of its decision."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import final

from runtime.scheduling.chain import Lane
from runtime.scheduling.policies.base import PendingJobs, Placement, PlacementContext, Policy
from runtime.scheduling.policies.rules import Delays, delay_ms


@final
@dataclass(frozen=True)
class LookAhead(Policy):
    """Chooses the lane that leads to the smallest predicted makespan; ties go to the first lane.

    All pending jobs are simulated by the dispatcher's rules: every lane is tried for this job and for
    the next `depth - 1` jobs of any network, and each branch continues by earliest finish. Among
    equal makespans the smaller sum of the ends of all jobs wins. Future arrivals are unknown, and an
    order other than first come is not simulated.

    A decision costs `lanes ** depth` branches of at most `horizon` jobs, each `lanes` steps. It may
    take longer than the jobs it places, so it suits a few jobs of some milliseconds and the
    simulator.
    """

    sync_ms: Delays | None = None
    depth: int = 3
    horizon: int = 64

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
          ValueError: unless 1 <= depth <= horizon.
        """
        if not 1 <= self.depth <= self.horizon:
            raise ValueError(f"depth={self.depth} must be from 1 to horizon={self.horizon}")

    def place(self, context: PlacementContext) -> Placement:
        """Return the lane for this job."""
        begin = _Rollout.of(context, self.sync_ms, self.horizon)
        ends_ms = begin.ends_ms()  # the tie-break where another job has no lane: all is infinite
        best = min(
            range(len(ends_ms)),
            key=lambda lane: (*begin.put(lane).value(self.depth - 1), ends_ms[lane]),
        )
        delayed_ms = delay_ms(self.sync_ms, context.previous_lane, best)
        return Placement(best, context.predicted_ms[best] + delayed_ms)


@final
class _Rollout:
    """A partial simulation: `put` extends a copy by one job, `value` completes this one in place."""

    def __init__(
        self,
        lanes: tuple[Lane, ...],
        sync_ms: Delays | None,
        free_ms: list[float],
        networks: tuple[PendingJobs, ...],
    ) -> None:
        self._lanes = lanes
        self._sync_ms = sync_ms
        self._free_ms = free_ms
        self._networks = networks
        self._next = [0] * len(networks)
        self._previous = [pending.previous_lane for pending in networks]
        self._ready_ms = [pending.ready_ms for pending in networks]
        self._due: list[tuple[float, int, int]] = []
        """Heap of (time at which a network's next job is placed, tie-breaker, network)."""
        self._remaining = 0
        self._placed = 0
        self._makespan_ms = self._sum_ms = 0.0

    @classmethod
    def of(cls, context: PlacementContext, sync_ms: Delays | None, horizon: int) -> _Rollout:
        """Start with the context's job as the next one to place."""
        rollout = cls(context.lanes, sync_ms, [*context.backlog_ms], context.pending())
        others = len(rollout._networks)
        for i, pending in enumerate(rollout._networks):
            at_launch = pending.previous_lane is not None and rollout._at_launch(
                pending.previous_lane
            )
            if i == 0:
                rollout._due.append((0.0, -1, i))
            elif at_launch:  # placed now, after the networks whose requests have just arrived
                rollout._due.append((0.0, others + i, i))
            else:
                rollout._due.append((pending.ready_ms, i, i))
        heapify(rollout._due)
        rollout._placed = 2 * others
        rollout._remaining = min(horizon, sum(len(pending.jobs) for pending in rollout._networks))
        return rollout

    def ends_ms(self) -> list[float]:
        """Return the end of the next job, by lane."""
        network = self._due[0][2]
        begins, times_ms = self._networks[network].jobs[self._next[network]]
        previous = None if begins else self._previous[network]
        ready_ms = self._ready_ms[network]
        return [
            max(free_ms, ready_ms) + time_ms + delay_ms(self._sync_ms, previous, lane)
            for lane, (free_ms, time_ms) in enumerate(zip(self._free_ms, times_ms, strict=True))
        ]

    def value(self, depth: int) -> tuple[float, float]:
        """Return the smallest (makespan, sum of ends) with every lane tried for `depth` jobs."""
        if self._remaining == 0:
            return self._makespan_ms, self._sum_ms
        if depth > 0:
            return min(self.put(lane).value(depth - 1) for lane in range(len(self._lanes)))
        while self._remaining > 0:
            ends_ms = self.ends_ms()
            self._put(ends_ms.index(min(ends_ms)), min(ends_ms))
        return self._makespan_ms, self._sum_ms

    def put(self, lane: int) -> _Rollout:
        """Return a copy with the next job put on this lane."""
        other = _Rollout(self._lanes, self._sync_ms, [*self._free_ms], self._networks)
        other._next, other._previous = [*self._next], [*self._previous]
        other._ready_ms, other._due = [*self._ready_ms], [*self._due]
        other._remaining, other._placed = self._remaining, self._placed
        other._makespan_ms, other._sum_ms = self._makespan_ms, self._sum_ms
        other._put(lane, self.ends_ms()[lane])
        return other

    def _at_launch(self, lane: int) -> bool:
        return self._lanes[lane].asynchronous

    def _put(self, lane: int, end_ms: float) -> None:
        now_ms, _, network = heappop(self._due)
        self._free_ms[lane] = self._ready_ms[network] = end_ms
        self._previous[network] = lane
        self._next[network] += 1
        self._remaining -= 1
        self._makespan_ms = max(self._makespan_ms, end_ms)
        self._sum_ms += end_ms
        jobs = self._networks[network].jobs
        if self._next[network] < len(jobs):
            begins, _ = jobs[self._next[network]]
            next_ms = now_ms if self._at_launch(lane) and not begins else end_ms
            heappush(self._due, (next_ms, self._placed, network))
            self._placed += 1
