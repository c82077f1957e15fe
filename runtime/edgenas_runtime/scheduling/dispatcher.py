"""Decides which job is placed next and asks the policy for its lane; drives real and simulated lanes.

Jobs of a request are placed one after another: the next one when the previous one was launched on an
asynchronous lane, or ended on a synchronous one. Requests of a network are served one after another,
in order of arrival; the next request begins when no job of the previous one is on a lane.

A ledger holds the predicted work that is queued or running on each lane.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

from edgenas_runtime.scheduling.chain import Chain, Job, Lane, Request, check
from edgenas_runtime.scheduling.policies.base import PlacementContext, Policy


@dataclass
class _Entry:
    charged_ms: float
    upto_ms: float
    """Sum of the charges since the lane was empty, up to and including this job."""
    taken_at_ms: float | None = None


@final
class Ledger:
    """Queue times of figure 4-5: they grow when a job is placed and shrink when it starts or ends."""

    def __init__(self, lanes: Sequence[Lane]) -> None:
        self._lanes = lanes
        self._entries: list[dict[Job, _Entry]] = [{} for _ in lanes]
        self._last_end_ms = [0.0] * len(lanes)

    def put(self, job: Job, lane: int, charged_ms: float) -> None:
        """Record that a job was placed on a lane."""
        entries = self._entries[lane]
        before_ms = entries[next(reversed(entries))].upto_ms if entries else 0.0
        entries[job] = _Entry(charged_ms, before_ms + charged_ms)

    def take(self, job: Job, lane: int, now_ms: float) -> None:
        """Record that a worker took the job, or that it was launched."""
        self._entries[lane][job].taken_at_ms = now_ms

    def end(self, job: Job, lane: int, now_ms: float) -> None:
        """Record that the job ended or will never run."""
        entries = self._entries[lane]
        is_first = next(iter(entries)) == job
        del entries[job]
        if not is_first:
            upto_ms = 0.0
            for entry in entries.values():
                upto_ms += entry.charged_ms
                entry.upto_ms = upto_ms
        self._last_end_ms[lane] = now_ms

    def queue_ms(self) -> tuple[float, ...]:
        """Return QTime of each lane."""
        return tuple(
            _sum_to_the_last_ms(entries)
            if lane.asynchronous
            else sum(entry.charged_ms for entry in entries.values() if entry.taken_at_ms is None)
            for lane, entries in zip(self._lanes, self._entries, strict=True)
        )

    def backlog_ms(self, now_ms: float) -> tuple[float, ...]:
        """Return the predicted time until each lane is idle; an overdue job counts as 0."""
        return tuple(
            self.remaining_ms(next(reversed(entries)), lane, now_ms) if entries else 0.0
            for lane, entries in enumerate(self._entries)
        )

    def remaining_ms(self, job: Job, lane: int, now_ms: float) -> float:
        """Return the predicted time until a job on the lane ends; 0 if it has ended."""
        entries = self._entries[lane]
        if job not in entries:
            return 0.0
        first = next(iter(entries.values()))
        remaining_ms = _sum_ms(first, entries[job])
        if first.taken_at_ms is not None:
            began_ms = max(first.taken_at_ms, self._last_end_ms[lane])
            remaining_ms -= min(first.charged_ms, now_ms - began_ms)
        return remaining_ms


def _sum_ms(first: _Entry, last: _Entry) -> float:
    if first is last:
        return first.charged_ms  # without rounding
    return last.upto_ms - first.upto_ms + first.charged_ms


def _sum_to_the_last_ms(entries: dict[Job, _Entry]) -> float:
    if not entries:
        return 0.0
    return _sum_ms(next(iter(entries.values())), entries[next(reversed(entries))])


@final
@dataclass(frozen=True)
class Ticket:
    """A job assigned to a lane."""

    job: Job
    lane: int
    previous_lane: int | None


@final
class Dispatcher:
    """Turns events (arrived, taken, ended, ...) into the next job to put on a lane.

    Times are milliseconds on the caller's clock and never decrease.
    """

    def __init__(
        self,
        chains: Sequence[Chain],
        requests: Sequence[Request],
        lanes: Sequence[Lane],
        policy: Policy,
    ) -> None:
        """Start with no request arrived.

        Raises:
          ValueError: if chains, requests and lanes do not fit together; later, if the policy puts
            a job on a lane that cannot run it.
        """
        check(chains, requests, lanes)
        self._chains = chains
        self._requests = requests
        self._lanes = tuple(lanes)
        self._policy = policy
        self._ledger = Ledger(lanes)
        self._waiting: list[deque[int]] = [deque() for _ in chains]
        """Arrived requests of each network; the first is being served, the others wait in order."""
        self._on_lanes: Counter[int] = Counter()
        """Number of jobs on lanes, by request being served."""
        self._over: set[int] = set()
        """Requests being served that get no further job."""

    def arrived(self, request: int, now_ms: float) -> Ticket | None:
        """Record that a request arrived; return its first job if its network was idle."""
        network = self._requests[request].network
        waiting = self._waiting[network]
        waiting.append(request)
        if len(waiting) > 1:
            return None
        return self._place(Job(request, network, 0), None, now_ms)

    def taken(self, ticket: Ticket, now_ms: float) -> Ticket | None:
        """Record that the job was taken or launched; return the next job if it was launched."""
        self._ledger.take(ticket.job, ticket.lane, now_ms)
        if (
            not self._lanes[ticket.lane].asynchronous
            or self.is_last(ticket.job)
            or ticket.job.request in self._over
        ):
            return None
        return self._next(ticket, now_ms)

    def ended(self, ticket: Ticket, now_ms: float) -> Ticket | None:
        """Record that the job ended; return the next job of its request or of the network's next."""
        self._leave(ticket, now_ms)
        if self.is_last(ticket.job):
            self._over.add(ticket.job.request)  # reports of earlier jobs may still follow
        if ticket.job.request in self._over:
            return self._next_request(ticket.job, now_ms)
        return None if self._lanes[ticket.lane].asynchronous else self._next(ticket, now_ms)

    def failed(self, ticket: Ticket, now_ms: float) -> Ticket | None:
        """Record that the job raised; return the first job of the next request.

        The request is over. If other jobs of it are still on asynchronous lanes, the next request
        begins when they have ended.
        """
        self._leave(ticket, now_ms)
        self._over.add(ticket.job.request)
        return self._next_request(ticket.job, now_ms)

    def is_last(self, job: Job) -> bool:
        """Return whether the job is the last of its request."""
        return job.index == len(self._chains[job.network]) - 1

    def _next(self, ticket: Ticket, now_ms: float) -> Ticket:
        job = replace(ticket.job, index=ticket.job.index + 1)
        return self._place(job, ticket.lane, now_ms)

    def _leave(self, ticket: Ticket, now_ms: float) -> None:
        self._ledger.end(ticket.job, ticket.lane, now_ms)
        self._on_lanes[ticket.job.request] -= 1

    def _next_request(self, job: Job, now_ms: float) -> Ticket | None:
        if self._on_lanes[job.request] > 0:
            return None
        del self._on_lanes[job.request]
        self._over.discard(job.request)
        waiting = self._waiting[job.network]
        waiting.popleft()
        return self._place(Job(waiting[0], job.network, 0), None, now_ms) if waiting else None

    def _ready_ms(self, job: Job, previous_lane: int | None, now_ms: float) -> float:
        if previous_lane is None:
            return 0.0
        return self._ledger.remaining_ms(replace(job, index=job.index - 1), previous_lane, now_ms)

    def _place(self, job: Job, previous_lane: int | None, now_ms: float) -> Ticket:
        chain = self._chains[job.network]
        predicted_ms = chain.predicted_ms[job.index]
        placement = self._policy.place(
            PlacementContext(
                job=job,
                kind=chain.kinds[job.index],
                lanes=self._lanes,
                predicted_ms=predicted_ms,
                queue_ms=self._ledger.queue_ms(),
                backlog_ms=self._ledger.backlog_ms(now_ms),
                previous_lane=previous_lane,
                ready_ms=self._ready_ms(job, previous_lane, now_ms),
            )
        )
        lane = placement.lane
        if not 0 <= lane < len(self._lanes):
            raise ValueError(
                f"{self._policy} put job {job.index} of {chain.name} on lane {lane}, "
                f"but there are {len(self._lanes)} lanes"
            )
        if math.isinf(predicted_ms[lane]):
            raise ValueError(
                f"{self._policy} put job {job.index} of {chain.name} "
                f"on {self._lanes[lane].name}, which cannot run it"
            )
        self._ledger.put(job, lane, placement.charged_ms)
        self._on_lanes[job.request] += 1
        return Ticket(job, lane, previous_lane)
