"""A policy that plays out what its decision leads to."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import final

from runtime.scheduling.chain import Lane
from runtime.scheduling.policies.base import Outlook, Placement, Policy, Situation
from runtime.scheduling.policies.rules import Delays, delay_ms


@final
@dataclass(frozen=True)
class LookAhead(Policy):
    """The lane from which the whole rest ends first, as predicted; the first among equals.

    The rest is all that has arrived and is not on a lane. It is played out by the dispatcher's rules:
    every lane is tried for this job and for the `depth - 1` placed after it, of whatever network, and
    each try goes on by earliest finish. Of equal makespans the smaller sum of the ends of all jobs
    is better. Arrivals to come are not known, and an order other than first come is not played out.

    A decision costs `lanes ** depth` tries of at most `horizon` jobs, each `lanes` steps. It may
    take longer than the jobs it places, so it is for few jobs of some milliseconds and for the
    simulator; `benchmarks/policy_cost.py` tells what a decision costs.
    """

    sync_ms: Delays | None = None
    """None for none."""
    depth: int = 3
    horizon: int = 64

    def __post_init__(self) -> None:
        """Checks the numbers.

        Raises:
          ValueError: if nothing would be tried or played out.
        """
        if not 1 <= self.depth <= self.horizon:
            raise ValueError(f"a depth of {self.depth} within a horizon of {self.horizon} jobs")

    def place(self, situation: Situation) -> Placement:
        """The lane for this job."""
        begin = _Play.of(situation, self.sync_ms, self.horizon)
        ends_ms = begin.ends_ms()  # decide where another job has no lane left: all is infinite
        best = min(
            range(len(ends_ms)),
            key=lambda lane: (*begin.put(lane).value(self.depth - 1), ends_ms[lane]),
        )
        delayed_ms = delay_ms(self.sync_ms, situation.previous_lane, best)
        return Placement(best, situation.predicted_ms[best] + delayed_ms)


@final
class _Play:
    """What is placed from here on: `put` goes on in a copy, `value` plays this one to its end."""

    def __init__(
        self,
        lanes: tuple[Lane, ...],
        sync_ms: Delays | None,
        free_ms: list[float],
        networks: tuple[Outlook, ...],
    ) -> None:
        self._lanes = lanes
        self._sync_ms = sync_ms
        self._free_ms = free_ms
        self._networks = networks
        self._next = [0] * len(networks)
        self._previous = [one.previous_lane for one in networks]
        self._ready_ms = [one.ready_ms for one in networks]
        self._due: list[tuple[float, int, int]] = []
        """When the next job of a network is placed, a number that keeps their order, the network."""
        self._left = 0
        self._placed = 0
        self._makespan_ms = self._sum_ms = 0.0

    @classmethod
    def of(cls, situation: Situation, sync_ms: Delays | None, horizon: int) -> _Play:
        """This job is the next that is placed."""
        play = cls(situation.lanes, sync_ms, [*situation.backlog_ms], situation.outlook())
        others = len(play._networks)
        for i, one in enumerate(play._networks):
            at_launch = one.previous_lane is not None and play._at_launch(one.previous_lane)
            if i == 0:
                play._due.append((0.0, -1, i))
            elif at_launch:  # heard of at this moment, after those that have just come
                play._due.append((0.0, others + i, i))
            else:
                play._due.append((one.ready_ms, i, i))
        heapify(play._due)
        play._placed = 2 * others
        play._left = min(horizon, sum(len(one.jobs) for one in play._networks))
        return play

    def ends_ms(self) -> list[float]:
        """When the next job would end, by lane."""
        network = self._due[0][2]
        begins, times_ms = self._networks[network].jobs[self._next[network]]
        previous = None if begins else self._previous[network]
        ready_ms = self._ready_ms[network]
        return [
            max(free_ms, ready_ms) + time_ms + delay_ms(self._sync_ms, previous, lane)
            for lane, (free_ms, time_ms) in enumerate(zip(self._free_ms, times_ms, strict=True))
        ]

    def value(self, depth: int) -> tuple[float, float]:
        """The makespan and the sum of ends; the least there is, if every lane is tried so often."""
        if self._left == 0:
            return self._makespan_ms, self._sum_ms
        if depth > 0:
            return min(self.put(lane).value(depth - 1) for lane in range(len(self._lanes)))
        while self._left > 0:
            ends_ms = self.ends_ms()
            self._put(ends_ms.index(min(ends_ms)), min(ends_ms))
        return self._makespan_ms, self._sum_ms

    def put(self, lane: int) -> _Play:
        """The next job on this lane."""
        other = _Play(self._lanes, self._sync_ms, [*self._free_ms], self._networks)
        other._next, other._previous = [*self._next], [*self._previous]
        other._ready_ms, other._due = [*self._ready_ms], [*self._due]
        other._left, other._placed = self._left, self._placed
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
        self._left -= 1
        self._makespan_ms = max(self._makespan_ms, end_ms)
        self._sum_ms += end_ms
        jobs = self._networks[network].jobs
        if self._next[network] < len(jobs):
            begins, _ = jobs[self._next[network]]
            next_ms = now_ms if self._at_launch(lane) and not begins else end_ms
            heappush(self._due, (next_ms, self._placed, network))
            self._placed += 1
