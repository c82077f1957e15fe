"""Runs programs on real lanes, with a policy choosing the lane of each job.

The calling thread places all jobs and handles all events; lanes only compute.
"""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import final

from torch import Tensor

from runtime.lanes.base import Began, Ended, RealLane
from runtime.network.completion import Completion
from runtime.network.program import ActiveInference, SegmentedNetwork
from runtime.scheduling.chain import Chain, Job, Request
from runtime.scheduling.dispatcher import Dispatcher, Ticket
from runtime.scheduling.order import Order
from runtime.scheduling.policies.base import Policy
from runtime.scheduling.schedule import Executed, Schedule


@final
class LaneTimeoutError(RuntimeError):
    """A job exceeded the timeout and its lane was closed, or no lane is left to run it."""


@final
@dataclass(frozen=True)
class Network:
    """A compiled network with its input and predicted times."""

    program: SegmentedNetwork
    x: Tensor
    """Input of every request."""
    chain: Chain
    """Jobs of the program, with the predicted times for the policy."""

    def __post_init__(self) -> None:
        """Check that program and chain have the same length.

        Raises:
          ValueError: if they differ in length.
        """
        if len(self.program) != len(self.chain):
            raise ValueError(
                f"{self.chain.name} has {len(self.chain)} jobs but {len(self.program)} segments"
            )


@final
@dataclass(frozen=True)
class _Remove:
    network: int


@final
class Control:
    """Removes networks from a running execution, from another thread."""

    def __init__(self) -> None:
        self._events: SimpleQueue[Began | Ended | _Remove] = SimpleQueue()
        self._networks: int | None = None
        self._asked_first: list[int] = []
        """Networks removed before the execution began; `begin` checks them."""

    def remove(self, network: int) -> None:
        """Stop serving a network: its requests that are not complete end with CancelledError.

        Its jobs on lanes run to completion; no other job of it begins. A network that does not exist
        is refused here if the execution has begun, else by the execution.

        Raises:
          ValueError: if the execution has no such network.
        """
        self._check(network)
        if self._networks is None:
            self._asked_first.append(network)
        self._events.put(_Remove(network))

    def begin(self, networks: int) -> None:
        """Record that the execution begins with this number of networks.

        Raises:
          ValueError: if a network was removed that does not exist.
        """
        self._networks = networks
        for network in self._asked_first:
            self._check(network)

    def _check(self, network: int) -> None:
        most = math.inf if self._networks is None else self._networks
        if not isinstance(network, int) or not 0 <= network < most:
            there = "networks count from 0" if self._networks is None else f"there are {most}"
            raise ValueError(f"network {network!r} cannot be removed; {there}")


def execute(
    networks: Sequence[Network],
    requests: Sequence[Request],
    lanes: Sequence[RealLane],
    policy: Policy,
    *,
    job_timeout_s: float | None = None,
    control: Control | None = None,
    order: Order = Order.FIRST_COME,
) -> tuple[Schedule, tuple[Tensor | BaseException, ...]]:
    """Serve all requests; arrivals and the schedule's times count from the call.

    A job that raises ends its request only. A lane whose job exceeds the timeout is closed and gets
    no further job; jobs waiting there are placed again on other lanes, while jobs launched on an
    asynchronous lane fail together with their requests.

    Args:
      networks: the networks, by index in the requests.
      requests: in any order; equal arrivals are served in the order given.
      lanes: where jobs can run; they stay open.
      policy: chooses the lane of each job.
      job_timeout_s: None for no timeout. A job's time counts from when it is the first job begun on
        its lane and the previous job of its request has ended.
      control: removes networks during this execution only; None if not needed.
      order: order of waiting requests and jobs.

    Returns:
      The schedule of the jobs that ran to completion, and for each request its output or the error
      of one of its jobs: LaneTimeoutError after a timeout, CancelledError if its network was
      removed.

    Raises:
      ValueError: if networks, requests, lanes and control do not fit together, or the policy puts a
        job on a lane that cannot run it.
    """
    chains = tuple(network.chain for network in networks)
    dispatcher = Dispatcher(chains, requests, [lane.lane for lane in lanes], policy, order)
    control = Control() if control is None else control
    control.begin(len(networks))
    execution = _Execution(networks, requests, lanes, dispatcher, control._events)  # noqa: SLF001 - the other end of the queue
    try:
        execution.run(job_timeout_s)
    finally:
        for lane in lanes:  # only has an effect after an error or Ctrl-C
            lane.withdraw()
    schedule = Schedule(
        chains,
        tuple(lane.lane for lane in lanes),
        tuple(requests),
        tuple(sorted(execution.executed, key=lambda one: (one.start_ms, one.end_ms, one.lane))),
    )
    return schedule, tuple(execution.results[i] for i in range(len(requests)))


def executed(
    networks: Sequence[Network],
    requests: Sequence[Request],
    lanes: Sequence[RealLane],
    policy: Policy,
) -> Schedule:
    """Serve all requests as `execute` does, and return the schedule only.

    Raises:
      BaseException: the first error of a request.
    """
    schedule, results = execute(networks, requests, lanes, policy)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return schedule


@final
class _Execution:
    def __init__(
        self,
        networks: Sequence[Network],
        requests: Sequence[Request],
        lanes: Sequence[RealLane],
        dispatcher: Dispatcher,
        events: SimpleQueue[Began | Ended | _Remove],
    ) -> None:
        self._networks = networks
        self._requests = requests
        self._lanes = lanes
        self._dispatcher = dispatcher
        self._events = events
        self._begin_s = time.perf_counter()
        self._inferences: dict[int, ActiveInference] = {}
        self._latest: dict[int, tuple[Job, Completion, Completion | None]] = {}
        """Last job put, by request, with its completion and that of the previous job."""
        self._underway: list[dict[Job, Ticket]] = [{} for _ in lanes]
        """Jobs on each lane, in the order in which they were put."""
        self._jobs_of: Counter[int] = Counter()
        """Number of jobs on lanes, by request."""
        self._begun: set[Job] = set()
        self._clocks: list[tuple[Job, float] | None] = [None] * len(lanes)
        """Running job of each lane, and since when it runs."""
        self._lost: set[int] = set()
        self._removed: set[int] = set()
        self.executed: list[Executed] = []
        self.results: dict[int, Tensor | BaseException] = {}

    def run(self, job_timeout_s: float | None) -> None:
        arrivals = deque(
            sorted(range(len(self._requests)), key=lambda i: self._requests[i].arrival_ms)
        )
        while len(self.results) < len(self._requests) or any(self._underway):
            if arrivals and self._requests[arrivals[0]].arrival_ms <= self._now_ms():
                self._arrive(arrivals.popleft())
                continue  # if every lane is lost, that may have been the last result
            wake_s = [self._begin_s + self._requests[i].arrival_ms / 1e3 for i in [*arrivals][:1]]
            if job_timeout_s is not None:
                self._set_clocks()
                wake_s += [clock[1] + job_timeout_s for clock in self._clocks if clock is not None]
            try:
                self._handle(self._events.get(timeout=_until(wake_s)))
            except Empty:
                if job_timeout_s is not None:
                    self._watch(job_timeout_s)

    def _now_ms(self) -> float:
        return 1e3 * (time.perf_counter() - self._begin_s)

    def _arrive(self, request: int) -> None:
        network = self._requests[request].network
        if network in self._removed:
            self.results[request] = CancelledError(f"network {network} was removed")
        else:
            self._put(self._dispatcher.arrived(request, self._now_ms()))

    def _put(self, ticket: Ticket | None) -> None:
        while ticket is not None and ticket.lane in self._lost:
            error = LaneTimeoutError(f"lane {self._lanes[ticket.lane].lane.name} was closed")
            ticket = self._give_up(ticket, error)
        if ticket is None:
            return
        job = ticket.job
        if job.request not in self._inferences:
            network = self._networks[job.network]
            self._inferences[job.request] = network.program.start(network.x)
        self._underway[ticket.lane][job] = ticket
        self._jobs_of[job.request] += 1
        before = self._before(job)
        completion = self._lanes[ticket.lane].put(
            ticket,
            self._inferences[job.request].job(job.index, ticket.lane),
            self._events,
            None if ticket.previous_lane in {None, ticket.lane} else before,
        )
        self._latest[job.request] = job, completion, before

    def _before(self, job: Job) -> Completion | None:
        if job.request not in self._latest:
            return None
        latest, completion, before = self._latest[job.request]
        return before if latest == job else completion  # equal if the lane returned the job

    def _handle(self, event: Began | Ended | _Remove) -> None:
        if isinstance(event, _Remove):
            self._remove(event.network)
            return
        ticket = event.ticket
        if self._underway[ticket.lane].get(ticket.job) != ticket:
            return  # late event of a job that was given up
        if isinstance(event, Began):
            self._begun.add(ticket.job)
            self._put(self._dispatcher.taken(ticket, self._now_ms()))
            return
        self._leave(ticket)
        if event.error is not None:
            self._put(self._give_up(ticket, event.error))
            return
        start_ms, end_ms = (1e3 * (at_s - self._begin_s) for at_s in (event.began_s, event.ended_s))
        self.executed.append(Executed(ticket.job, ticket.lane, start_ms, end_ms))
        request = ticket.job.request
        if self._dispatcher.is_last(ticket.job) and request not in self.results:
            self.results[request] = self._inferences[request].output
        next_ticket = self._dispatcher.ended(ticket, self._now_ms())
        self._forget(request)
        self._put(next_ticket)

    def _leave(self, ticket: Ticket) -> None:
        del self._underway[ticket.lane][ticket.job]
        self._begun.discard(ticket.job)
        self._jobs_of[ticket.job.request] -= 1

    def _give_up(self, ticket: Ticket, error: BaseException) -> Ticket | None:
        """End a request with an error; return the next ticket of the network, if any."""
        request = ticket.job.request
        self.results.setdefault(request, error)
        next_ticket = self._dispatcher.failed(ticket, self._now_ms())
        self._forget(request)
        return next_ticket

    def _forget(self, request: int) -> None:
        """Release the tensors of a request that is over and has no job on a lane."""
        if request in self.results and self._jobs_of[request] == 0:
            self._inferences.pop(request, None)
            self._latest.pop(request, None)
            del self._jobs_of[request]

    def _remove(self, network: int) -> None:
        self._removed.add(network)
        for request in self._dispatcher.removed(network):
            self.results.setdefault(request, CancelledError(f"network {network} was removed"))

    def _set_clocks(self) -> None:
        for lane, tickets in enumerate(self._underway):
            job = next((one for one in tickets if one in self._begun), None)
            clock = self._clocks[lane]
            if job is None or self._waits(tickets[job]):
                self._clocks[lane] = None
            elif clock is None or clock[0] != job:
                self._clocks[lane] = job, time.perf_counter()

    def _waits(self, ticket: Ticket) -> bool:
        """Return whether the previous job, on another lane, is not known to have ended."""
        if ticket.previous_lane is None:
            return False
        before = Job(ticket.job.request, ticket.job.network, ticket.job.index - 1)
        return before in self._underway[ticket.previous_lane]

    def _watch(self, job_timeout_s: float) -> None:
        now_s = time.perf_counter()
        for lane, clock in enumerate(self._clocks):
            if clock is not None and now_s - clock[1] >= job_timeout_s:
                self._lose(lane, clock[0], job_timeout_s)

    def _lose(self, lane: int, job: Job, job_timeout_s: float) -> None:
        name = self._lanes[lane].lane.name
        self._lanes[lane].close(wait_s=0)  # so that no withdrawn job can begin
        self._lost.add(lane)
        self._clocks[lane] = None
        self._dispatcher.lost(lane)
        returned = self._lanes[lane].withdraw()
        launched = [one for one in self._underway[lane].values() if one not in returned]
        for ticket in [*launched, *returned]:
            self._leave(ticket)
        for ticket in launched:
            reason = (
                f"job {job.index} of request {job.request} "
                f"ran for more than {job_timeout_s} s on lane {name}"
                if ticket.job == job
                else f"lane {name} was closed"
            )
            self._put(self._give_up(ticket, LaneTimeoutError(reason)))
        for ticket in returned:
            self._put(self._dispatcher.returned(ticket, self._now_ms()))


def _until(wake_s: list[float]) -> float | None:
    return max(min(wake_s) - time.perf_counter(), 0.0) if wake_s else None
