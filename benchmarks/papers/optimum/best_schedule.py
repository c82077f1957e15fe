"""Optimal schedules by branch and bound; for small cases only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from runtime.scheduling.chain import Chain, Job, Lane, Request, check
from runtime.scheduling.policies.rules import Delays, delay_ms
from runtime.scheduling.schedule import Executed, Schedule


def best_schedule(
    chains: Sequence[Chain],
    requests: Sequence[Request],
    lanes: Sequence[Lane],
    *,
    sync_ms: Delays | None = None,
) -> Schedule:
    """Return the schedule of minimum makespan, with all arrivals known in advance.

    Starting each job of a schedule as early as its lane and the previous job allow, in order of
    start, never lengthens the schedule. So it suffices to enumerate the orders that respect the
    chains and in which starts do not decrease, with each job on every lane. Branches that cannot
    beat the best known schedule are cut. The effort is exponential: a dozen jobs on two lanes take
    seconds in the worst case.

    Raises:
      ValueError: if chains, requests and lanes do not fit together.
    """
    check(chains, requests, lanes)
    search = _Search(chains, requests, len(lanes), sync_ms)
    search.extend(0.0)
    executed = sorted(search.best, key=lambda one: (one.start_ms, one.end_ms, one.lane))
    return Schedule(tuple(chains), tuple(lanes), tuple(requests), tuple(executed))


@final
@dataclass(frozen=True)
class _Step:
    """One job in the sequence of all requests of a network."""

    job: Job
    times_ms: tuple[float, ...]
    arrival_ms: float
    remaining_ms: float
    """Minimum time from the start of this job to the end of the sequence."""


class _Search:
    def __init__(
        self,
        chains: Sequence[Chain],
        requests: Sequence[Request],
        lanes: int,
        sync_ms: Delays | None,
    ) -> None:
        self._sync_ms = sync_ms
        self._steps = [self._sequence(chains[i], i, requests) for i in range(len(chains))]
        self._next = [0] * len(chains)
        self._ends_ms = [0.0] * len(chains)
        self._free_ms = [0.0] * lanes
        self._placed: list[Executed] = []
        self._last_lane: list[int | None] = [None] * len(chains)
        self._best_ms = math.inf
        self._latest_start_ms = 0.0
        self.best: tuple[Executed, ...] = ()

    @staticmethod
    def _sequence(chain: Chain, network: int, requests: Sequence[Request]) -> list[_Step]:
        own = [i for i, request in enumerate(requests) if request.network == network]
        own.sort(key=lambda i: requests[i].arrival_ms)
        steps: list[_Step] = []
        remaining_ms = 0.0
        for i in reversed(own):
            for index in reversed(range(len(chain))):
                remaining_ms += min(chain.predicted_ms[index])
                steps.append(
                    _Step(
                        Job(i, network, index),
                        chain.predicted_ms[index],
                        requests[i].arrival_ms,
                        remaining_ms,
                    )
                )
        return steps[::-1]

    def extend(self, makespan_ms: float) -> None:
        """Try every next job on every lane, depth first, earliest end first."""
        options = []
        for network, steps in enumerate(self._steps):
            if self._next[network] == len(steps):
                continue
            step = steps[self._next[network]]
            ready_ms = max(self._ends_ms[network], step.arrival_ms)
            if ready_ms + step.remaining_ms >= self._best_ms:
                return  # this network alone ends too late
            previous = self._last_lane[network] if step.job.index > 0 else None
            for lane, time_ms in enumerate(step.times_ms):
                start_ms = max(ready_ms, self._free_ms[lane])
                if start_ms < self._latest_start_ms:
                    continue
                end_ms = start_ms + time_ms + delay_ms(self._sync_ms, previous, lane)
                options.append((end_ms, network, Executed(step.job, lane, start_ms, end_ms)))
        if all(done == len(steps) for done, steps in zip(self._next, self._steps, strict=True)):
            self._best_ms, self.best = makespan_ms, tuple(self._placed)
        for end_ms, network, one in sorted(options, key=lambda option: option[:2]):
            longest_ms = max(makespan_ms, end_ms)
            if longest_ms < self._best_ms:
                self._try(network, one, longest_ms)

    def _try(self, network: int, execution: Executed, makespan_ms: float) -> None:
        lane = execution.lane
        before = (
            self._ends_ms[network],
            self._free_ms[lane],
            self._last_lane[network],
            self._latest_start_ms,
        )
        self._ends_ms[network] = self._free_ms[lane] = execution.end_ms
        self._last_lane[network] = lane
        self._latest_start_ms = execution.start_ms
        self._next[network] += 1
        self._placed.append(execution)
        self.extend(makespan_ms)
        self._placed.pop()
        self._next[network] -= 1
        (
            self._ends_ms[network],
            self._free_ms[lane],
            self._last_lane[network],
            self._latest_start_ms,
        ) = before
