"""Discrete-event simulation of lanes, driven by the same policies as real lanes.

A synchronous lane takes the first job of its queue when it is free; if the previous job of the
request still runs on an asynchronous lane, the worker and its lane wait. An asynchronous lane runs
jobs in launch order, each after the job that it needs has ended.

Dispatching is free by default. With a `DispatchOverhead`, the one dispatching thread handles events
one at a time, and a job reaches its lane when that thread has put it there.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from operator import attrgetter
from typing import final

from runtime.scheduling.chain import Chain, Job, Lane, Request
from runtime.scheduling.dispatcher import Dispatcher, Ticket
from runtime.scheduling.order import ServingOrder, insert
from runtime.scheduling.policies.base import Policy
from runtime.scheduling.policies.rules import Delays, delay_ms
from runtime.scheduling.schedule import Executed, Schedule


@final
@dataclass(frozen=True)
class DispatchOverhead:
    """Cost of dispatching jobs by one thread, as `execute` does; times are by lane.

    The thread handles one event at a time: it is notified of an arrival, launch or end, asks the
    policy and puts the next job. With many small jobs the lanes wait for this thread.
    """

    put_ms: tuple[float, ...]
    """Time for which the thread is busy with a job of this lane."""
    wake_ms: tuple[float, ...]
    """Time from the end of a job until an idle thread is notified."""

    def __post_init__(self) -> None:
        """Check the times.

        Raises:
          ValueError: if the tuples differ in length, or a time is negative or not finite.
        """
        if len(self.put_ms) != len(self.wake_ms):
            raise ValueError(f"{len(self.put_ms)} times to put and {len(self.wake_ms)} to wake")
        for ms in (*self.put_ms, *self.wake_ms):
            if not 0 <= ms < math.inf:
                raise ValueError(f"dispatch overhead of {ms} ms must be at least 0 and finite")


def simulate(
    chains: Sequence[Chain],
    requests: Sequence[Request],
    lanes: Sequence[Lane],
    policy: Policy,
    *,
    sync_ms: Delays | None = None,
    actual_ms: Callable[[Job, int], float] | None = None,
    order: ServingOrder = ServingOrder.FIRST_COME,
    overhead: DispatchOverhead | None = None,
) -> Schedule:
    """Serve all requests on simulated lanes.

    Requests with equal arrivals are served in the order given. Policies know the predicted times
    only; jobs take `actual_ms` on a lane, by default as predicted, and `sync_ms` by the previous
    job's lane and its own.

    Raises:
      ValueError: if chains, requests, lanes and overhead do not fit together, or the policy puts a
        job on a lane that cannot run it.
    """
    if overhead is not None and len(overhead.put_ms) != len(lanes):
        raise ValueError(
            f"the dispatch overhead is of {len(overhead.put_ms)} lanes, but there are {len(lanes)}"
        )
    dispatcher = Dispatcher(chains, requests, lanes, policy, order)
    return _Simulation(chains, requests, lanes, dispatcher, sync_ms, actual_ms, overhead).run()


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
        overhead: DispatchOverhead | None,
    ) -> None:
        self._chains = tuple(chains)
        self._requests = tuple(requests)
        self._lanes = tuple(lanes)
        self._dispatcher = dispatcher
        self._sync_ms = sync_ms
        self._actual_ms = actual_ms or times_of(chains)
        self._overhead = overhead
        self._reports: deque[Callable[[], Ticket | None]] = deque()
        """Events that the dispatching thread has not handled; empty without overhead."""
        self._is_dispatching = False
        """Whether the dispatching thread is busy."""
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
        self._report(lambda: self._dispatcher.arrived(request, self._now_ms))

    def _report(self, event: Callable[[], Ticket | None]) -> None:
        """Pass an event to the dispatching thread, which puts the resulting job on its lane."""
        if self._overhead is None:
            ticket = event()
            if ticket is not None:
                self._put(ticket)
            return
        self._reports.append(event)
        if not self._is_dispatching:
            self._is_dispatching = True
            self._at(self._now_ms, self._dispatch)

    def _dispatch(self) -> None:
        """Handle the next event; its job reaches the lane when the thread has put it there."""
        self._is_dispatching = bool(self._reports)
        if not self._is_dispatching or self._overhead is None:
            return
        done_ms = self._now_ms
        ticket = self._reports.popleft()()
        if ticket is not None:
            done_ms += self._overhead.put_ms[ticket.lane]
            self._at(done_ms, partial(self._put, ticket))
        self._at(done_ms, self._dispatch)

    def _put(self, ticket: Ticket) -> None:
        if self._lanes[ticket.lane].asynchronous:
            self._queues[ticket.lane].append(ticket)
        else:
            insert(self._queues[ticket.lane], ticket, attrgetter("rank"))
        self._at(self._now_ms, partial(self._take, ticket.lane))

    def _take(self, lane: int) -> None:
        if self._busy[lane] or not self._queues[lane]:
            return
        ticket = self._queues[lane].popleft()
        job = ticket.job
        begin_ms = max(self._now_ms, self._free_at_ms[lane], self._ends_ms.get(job.request, 0.0))
        took_ms = self._actual_ms(job, lane) + delay_ms(self._sync_ms, ticket.previous_lane, lane)
        one = Executed(job, lane, begin_ms, begin_ms + took_ms)
        self._busy[lane] = not self._lanes[lane].asynchronous
        self._free_at_ms[lane] = self._ends_ms[job.request] = one.end_ms
        self._at(one.end_ms, partial(self._end, ticket, one))
        self._report(lambda: self._dispatcher.taken(ticket, self._now_ms))

    def _end(self, ticket: Ticket, execution: Executed) -> None:
        self._executed.append(execution)
        self._busy[ticket.lane] = False
        self._at(self._now_ms, partial(self._take, ticket.lane))
        ended = partial(self._report, lambda: self._dispatcher.ended(ticket, self._now_ms))
        if self._overhead is None:
            ended()
        else:
            self._at(self._now_ms + self._overhead.wake_ms[ticket.lane], ended)
