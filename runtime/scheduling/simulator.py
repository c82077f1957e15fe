"""Lanes on a virtual clock, driven by the policies that drive real ones.

A synchronous lane takes the first job of its queue when it is free; should the job before it still
run on an asynchronous lane, the worker waits, and its lane with it. An asynchronous lane runs one
job after another in the order of their launches, each not before the job that it needs has ended.

Placing costs nothing, unless an `Issuer` says what it costs the one thread that places all jobs:
then that thread hears one thing after another, and a job is on its lane when it has been put there.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from operator import attrgetter
from typing import final

from runtime.scheduling.chain import Chain, Job, Lane, Request
from runtime.scheduling.dispatcher import Dispatcher, Ticket
from runtime.scheduling.issuer import Issuer
from runtime.scheduling.order import Order, insert
from runtime.scheduling.policies.base import Policy
from runtime.scheduling.policies.rules import Delays, delay_ms
from runtime.scheduling.schedule import Executed, Schedule


def simulate(
    chains: Sequence[Chain],
    requests: Sequence[Request],
    lanes: Sequence[Lane],
    policy: Policy,
    *,
    sync_ms: Delays | None = None,
    actual_ms: Callable[[Job, int], float] | None = None,
    order: Order = Order.FIRST_COME,
    issuer: Issuer | None = None,
) -> Schedule:
    """Serves all requests.

    Args:
      chains: the networks.
      requests: in any order; equal arrivals are served in the order given.
      lanes: where jobs can run.
      policy: decides where they do, knowing predicted times only.
      sync_ms: what a job takes longer by the lane before and its own; None for nothing.
      actual_ms: how long a job takes on a lane; None if predictions are right.
      order: who comes first of those who wait.
      issuer: what placing costs; None for nothing.

    Raises:
      ValueError: if chains, requests, lanes and issuer do not belong together, or the policy puts a
        job to a lane that cannot run it.
    """
    if issuer is not None and len(issuer.put_ms) != len(lanes):
        raise ValueError(f"an issuer of {len(issuer.put_ms)} lanes for {len(lanes)}")
    dispatcher = Dispatcher(chains, requests, lanes, policy, order)
    return _Simulation(chains, requests, lanes, dispatcher, sync_ms, actual_ms, issuer).run()


def times_of(chains: Sequence[Chain]) -> Callable[[Job, int], float]:
    """What jobs take on lanes by these chains, whatever a policy believes: for `actual_ms`."""
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
        issuer: Issuer | None,
    ) -> None:
        self._chains = tuple(chains)
        self._requests = tuple(requests)
        self._lanes = tuple(lanes)
        self._dispatcher = dispatcher
        self._sync_ms = sync_ms
        self._actual_ms = actual_ms or times_of(chains)
        self._issuer = issuer
        self._reports: deque[Callable[[], Ticket | None]] = deque()
        """What the issuing thread has not heard of; empty if placing costs nothing."""
        self._issues = False
        """Whether the issuing thread is at work."""
        self._now_ms = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()  # events of one moment happen in the order of their causes
        self._queues: list[deque[Ticket]] = [deque() for _ in lanes]
        self._busy = [False] * len(lanes)
        self._free_at_ms = [0.0] * len(lanes)
        self._ends_ms: dict[int, float] = {}
        """Of the latest job begun of each request."""
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

    def _report(self, heard: Callable[[], Ticket | None]) -> None:
        """The issuing thread hears it, when it comes to it, and puts what that gives."""
        if self._issuer is None:
            ticket = heard()
            if ticket is not None:
                self._put(ticket)
            return
        self._reports.append(heard)
        if not self._issues:
            self._issues = True
            self._at(self._now_ms, self._issue)

    def _issue(self) -> None:
        """The next report; what is put is on its lane when the thread is through with it."""
        self._issues = bool(self._reports)
        if not self._issues or self._issuer is None:
            return
        done_ms = self._now_ms
        ticket = self._reports.popleft()()
        if ticket is not None:
            done_ms += self._issuer.put_ms[ticket.lane]
            self._at(done_ms, partial(self._put, ticket))
        self._at(done_ms, self._issue)

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

    def _end(self, ticket: Ticket, one: Executed) -> None:
        self._executed.append(one)
        self._busy[ticket.lane] = False
        self._at(self._now_ms, partial(self._take, ticket.lane))
        ended = partial(self._report, lambda: self._dispatcher.ended(ticket, self._now_ms))
        if self._issuer is None:
            ended()
        else:
            self._at(self._now_ms + self._issuer.wake_ms[ticket.lane], ended)
