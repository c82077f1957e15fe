"""Programs on real lanes, each job where a policy wants it, on the wall clock.

One thread, the caller's, places all jobs and hears of all ends; lanes only compute.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import final

from torch import Tensor

from runtime.chain import Chain, Request
from runtime.dispatcher import Dispatcher, Ticket
from runtime.lanes import Began, Ended, Events, RealLane
from runtime.policy import Policy
from runtime.program import Inference, Program
from runtime.schedule import Executed, Schedule


@final
class LaneTimeoutError(RuntimeError):
    """A job ran longer than the watchdog allows, or found no lane left; its lane is given up."""


@final
@dataclass(frozen=True)
class Network:
    """What is run for a request."""

    program: Program
    x: Tensor
    """The input of every request."""
    chain: Chain
    """The program's jobs, with the times that a policy is to believe."""

    def __post_init__(self) -> None:
        """Checks that program and chain belong together.

        Raises:
          ValueError: if they differ in length.
        """
        if len(self.program) != len(self.chain):
            raise ValueError(
                f"{self.chain.name} has {len(self.chain)} jobs for {len(self.program)} segments"
            )


def execute(
    networks: Sequence[Network],
    requests: Sequence[Request],
    lanes: Sequence[RealLane],
    policy: Policy,
    *,
    job_timeout_s: float | None = None,
) -> tuple[Schedule, tuple[Tensor | BaseException, ...]]:
    """Serves all requests; arrivals and the schedule's times count from the call.

    A job that raises ends its request only. A lane whose job exceeds the timeout is closed and gets
    no further job; what waited there is placed anew on the others.

    Args:
      networks: those that requests name.
      requests: in any order; equal arrivals are served in the order given.
      lanes: where jobs can run; they stay open.
      policy: decides where they do.
      job_timeout_s: None waits for ever.

    Returns:
      The schedule of the jobs that ran to their end, and for each request its output or what one of
      its jobs raised: LaneTimeoutError if the watchdog did.

    Raises:
      ValueError: if networks, requests and lanes do not belong together, or the policy puts a job
        to a lane that cannot run it.
    """
    chains = tuple(network.chain for network in networks)
    dispatcher = Dispatcher(chains, requests, [lane.lane for lane in lanes], policy)
    execution = _Execution(networks, requests, lanes, dispatcher)
    try:
        execution.run(job_timeout_s)
    finally:
        for lane in lanes:  # after an error or Ctrl-C; else there is nothing to take back
            lane.withdraw()
    schedule = Schedule(
        chains,
        tuple(lane.lane for lane in lanes),
        tuple(requests),
        tuple(sorted(execution.executed, key=lambda one: (one.start_ms, one.end_ms, one.lane))),
    )
    return schedule, tuple(execution.results[i] for i in range(len(requests)))


@final
class _Execution:
    def __init__(
        self,
        networks: Sequence[Network],
        requests: Sequence[Request],
        lanes: Sequence[RealLane],
        dispatcher: Dispatcher,
    ) -> None:
        self._networks = networks
        self._requests = requests
        self._lanes = lanes
        self._dispatcher = dispatcher
        self._events: Events = SimpleQueue()
        self._begin_s = time.perf_counter()
        self._inferences: dict[int, Inference] = {}
        self._underway: dict[Ticket, float | None] = {}
        """On a lane, and since when it runs, on the lanes' clock."""
        self._lost: set[int] = set()
        self.executed: list[Executed] = []
        self.results: dict[int, Tensor | BaseException] = {}

    def run(self, job_timeout_s: float | None) -> None:
        arrivals = deque(
            sorted(range(len(self._requests)), key=lambda i: self._requests[i].arrival_ms)
        )
        while len(self.results) < len(self._requests):
            if arrivals and self._requests[arrivals[0]].arrival_ms <= self._now_ms():
                self._put(self._dispatcher.arrived(arrivals.popleft(), self._now_ms()))
                continue  # with every lane lost, that may have been the last result
            wake_s = [self._begin_s + self._requests[i].arrival_ms / 1e3 for i in [*arrivals][:1]]
            if job_timeout_s is not None:
                since = (began_s for began_s in self._underway.values() if began_s is not None)
                wake_s += [began_s + job_timeout_s for began_s in since]
            try:
                self._hear(self._events.get(timeout=_until(wake_s)))
            except Empty:
                if job_timeout_s is not None:
                    self._watch(job_timeout_s)

    def _now_ms(self) -> float:
        return 1e3 * (time.perf_counter() - self._begin_s)

    def _put(self, ticket: Ticket | None) -> None:
        while ticket is not None and ticket.lane in self._lost:
            error = LaneTimeoutError(f"lane {self._lanes[ticket.lane].lane.name} was given up")
            ticket = self._give_up(ticket, error)
        if ticket is None:
            return
        job = ticket.job
        if job.index == 0:
            network = self._networks[job.network]
            self._inferences[job.request] = Inference(network.program, network.x)
        self._underway[ticket] = None
        self._lanes[ticket.lane].put(ticket, self._inferences[job.request].step, self._events)

    def _hear(self, event: Began | Ended) -> None:
        ticket = event.ticket
        if ticket not in self._underway:
            return  # a job given up came to its end after all
        if isinstance(event, Began):
            self._underway[ticket] = event.at_s
            self._put(self._dispatcher.taken(ticket, self._now_ms()))
            return
        del self._underway[ticket]
        if event.error is not None:
            self._put(self._give_up(ticket, event.error))
            return
        start_ms, end_ms = (1e3 * (at_s - self._begin_s) for at_s in (event.began_s, event.ended_s))
        self.executed.append(Executed(ticket.job, ticket.lane, start_ms, end_ms))
        if self._dispatcher.is_last(ticket.job):
            self.results[ticket.job.request] = self._inferences.pop(ticket.job.request).output
        self._put(self._dispatcher.ended(ticket, self._now_ms()))

    def _give_up(self, ticket: Ticket, error: BaseException) -> Ticket | None:
        self._inferences.pop(ticket.job.request, None)
        self.results[ticket.job.request] = error
        return self._dispatcher.failed(ticket, self._now_ms())

    def _watch(self, job_timeout_s: float) -> None:
        now_s = time.perf_counter()
        for ticket, began_s in list(self._underway.items()):
            if began_s is not None and now_s - began_s > job_timeout_s:
                self._lose(ticket, job_timeout_s)

    def _lose(self, ticket: Ticket, job_timeout_s: float) -> None:
        lane = self._lanes[ticket.lane]
        lane.close(wait_s=0)  # so that none of the jobs taken back can begin
        self._lost.add(ticket.lane)
        self._dispatcher.lost(ticket.lane)
        del self._underway[ticket]
        error = LaneTimeoutError(
            f"job {ticket.job.index} of request {ticket.job.request} "
            f"ran for more than {job_timeout_s} s on lane {lane.lane.name}"
        )
        self._put(self._give_up(ticket, error))
        for waiting in lane.withdraw():
            del self._underway[waiting]
            self._put(self._dispatcher.returned(waiting, self._now_ms()))


def _until(wake_s: list[float]) -> float | None:
    return max(min(wake_s) - time.perf_counter(), 0.0) if wake_s else None
