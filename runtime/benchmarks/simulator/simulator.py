"""Discrete-event simulation of lanes, driven by the same policies as real lanes.

A synchronous lane takes the first job of its queue when it is free; if the previous job of the
request still runs on an asynchronous lane, the worker and its lane wait. An asynchronous lane runs
jobs in launch order, each after the job that it needs has ended.
Dispatching is free.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import final

from edgenas_runtime.scheduling.chain import Chain, Job, Lane, Request
from edgenas_runtime.scheduling.dispatcher import Dispatcher, Ticket
from edgenas_runtime.scheduling.policies.base import Policy
from edgenas_runtime.scheduling.policies.rules import Delays, delay_ms
from edgenas_runtime.scheduling.schedule import Executed, Schedule


def simulate(
    chains: Sequence[Chain],
    requests: Sequence[Request],
    lanes: Sequence[Lane],
    policy: Policy,
    *,
    sync_ms: Delays | None = None,
    actual_ms: Callable[[Job, int], float] | None = None,
) -> Schedule:
    """Serve all requests on simulated lanes.

    Requests with equal arrivals are served in the order given. Policies know the predicted times
    only; jobs take `actual_ms` on a lane, by default as predicted, and `sync_ms` by the previous
    job's lane and its own.

    Raises:
      ValueError: if chains, requests and lanes do not fit together, or the policy puts a job on a
        lane that cannot run it.
    """
    dispatcher = Dispatcher(chains, requests, lanes, policy)
    return _Simulation(chains, requests, lanes, dispatcher, sync_ms, actual_ms).run()


def times_of(chains: Sequence[Chain]) -> Callable[[Job, int], float]:
    """Return the times of these chains as a function, for `actual_ms`."""
    return lambda job, lane: chains[job.network].predicted_ms[job.index][lane]


@final
class _Simulation:
    def __init__(  # noqa: PLR0917 - `simulate` is what others call
        self,
        chains: Sequence[Chain],
        requests: Sequence[Request],
        lanes: Sequence[Lane],
        dispatcher: Dispatcher,
        sync_ms: Delays | None,
        actual_ms: Callable[[Job, int], float] | None,
    ) -> None:
        self._chains = tuple(chains)
        self._requests = tuple(requests)
        self._lanes = tuple(lanes)
        self._dispatcher = dispatcher
        self._sync_ms = sync_ms
        self._actual_ms = actual_ms or times_of(chains)
        self._now_ms = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()  # simultaneous events happen in the order of their causes
        self._queues: list[deque[Ticket]] = [deque() for _ in lanes]
        self._busy = [False] * len(lanes)
        self._free_at_ms = [0.0] * len(lanes)
        self._ends_ms: dict[int, float] = {}
        """End of the latest job begun, by request."""
        self._executed: list[Executed] = []

    def run(self) -> Schedule:
        for i, request in enumerate(self._requests):
            self._at(request.arrival_ms, partial(self._arrive, i))
        while self._events:
            self._now_ms, _, happen = heapq.heappop(self._events)
            happen()
        executed = sorted(self._executed, key=lambda one: (one.start_ms, one.end_ms, one.lane))
        return Schedule(self._chains, self._lanes, self._requests, tuple(executed))

    def _at(self, time_ms: float, happen: Callable[[], None]) -> None:
        heapq.heappush(self._events, (time_ms, next(self._order), happen))

    def _arrive(self, request: int) -> None:
        self._put(self._dispatcher.arrived(request, self._now_ms))

    def _put(self, ticket: Ticket | None) -> None:
        """Put a job that is ready on its lane."""
        if ticket is None:
            return
        if self._lanes[ticket.lane].asynchronous:
            self._queues[ticket.lane].append(ticket)
        else:
            self._queues[ticket.lane].append(ticket)
        self._at(self._now_ms, partial(self._take, ticket.lane))

    def _take(self, lane: int) -> None:
        if self._busy[lane] or not self._queues[lane]:
            return
        ticket = self._queues[lane].popleft()
        job = ticket.job
        begin_ms = max(self._now_ms, self._free_at_ms[lane], self._ends_ms.get(job.request, 0.0))
        took_ms = self._actual_ms(job, lane) + delay_ms(self._sync_ms, ticket.previous_lane, lane)
        executed = Executed(job, lane, begin_ms, begin_ms + took_ms)
        self._busy[lane] = not self._lanes[lane].asynchronous
        self._free_at_ms[lane] = self._ends_ms[job.request] = executed.end_ms
        self._at(executed.end_ms, partial(self._end, ticket, executed))
        self._put(self._dispatcher.taken(ticket, self._now_ms))

    def _end(self, ticket: Ticket, execution: Executed) -> None:
        self._executed.append(execution)
        self._busy[ticket.lane] = False
        self._at(self._now_ms, partial(self._take, ticket.lane))
        self._put(self._dispatcher.ended(ticket, self._now_ms))
