"""Runs programs on real lanes, with a policy choosing the lane of each job.

The calling thread places all jobs and handles all events; lanes only compute.
"""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import final

import numpy as np
from torch import Tensor

from edgenas_runtime.lanes.base import Began, Ended, RealLane
from edgenas_runtime.network.completion import Completion
from edgenas_runtime.network.program import ActiveInference, SegmentedNetwork
from edgenas_runtime.scheduling.arrivals import closed
from edgenas_runtime.scheduling.chain import Chain, Job, Request
from edgenas_runtime.scheduling.dispatcher import Dispatcher, Ticket
from edgenas_runtime.scheduling.policies.base import Policy
from edgenas_runtime.scheduling.policies.rules import OneLane
from edgenas_runtime.scheduling.schedule import Executed, Schedule


@final
@dataclass(frozen=True)
class ServedNetwork:
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


def execute(
    networks: Sequence[ServedNetwork],
    requests: Sequence[Request],
    lanes: Sequence[RealLane],
    policy: Policy,
) -> tuple[Schedule, tuple[Tensor | BaseException, ...]]:
    """Serve all requests; arrivals and the schedule's times count from the call.

    A job that raises ends its request only.

    Args:
      networks: the networks, by index in the requests.
      requests: in any order; equal arrivals are served in the order given.
      lanes: where jobs can run; they stay open.
      policy: chooses the lane of each job.

    Returns:
      The schedule of the jobs that ran to completion, and for each request its output or the error
      of one of its jobs.

    Raises:
      ValueError: if networks, requests and lanes do not fit together, or the policy puts a
        job on a lane that cannot run it.
    """
    chains = tuple(network.chain for network in networks)
    dispatcher = Dispatcher(chains, requests, [lane.lane for lane in lanes], policy)
    execution = _Execution(networks, requests, lanes, dispatcher)
    try:
        execution.run()
    finally:
        for lane in lanes:  # only has an effect after an error or Ctrl-C
            lane.withdraw()
    schedule = Schedule(
        chains,
        tuple(lane.lane for lane in lanes),
        tuple(requests),
        tuple(sorted(execution.executed, key=lambda job: (job.start_ms, job.end_ms, job.lane))),
    )
    return schedule, tuple(execution.results[i] for i in range(len(requests)))


def executed(
    networks: Sequence[ServedNetwork],
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


def measured_chain(
    name: str, program: SegmentedNetwork, x: Tensor, lanes: Sequence[RealLane], *, repeats: int = 10
) -> Chain:
    """Time the program on one lane after another; return its jobs with their median times.

    Each lane runs the program twice as warm-up. Times are infinite on lanes that cannot run it.

    Raises:
      BaseException: any error of a segment.
    """
    kinds = program.kinds
    unknown = Chain(name, kinds, ((0.0,) * len(lanes),) * len(program))
    network = ServedNetwork(program, x, unknown)
    warm_up = 2
    medians_ms = []
    for lane in range(len(lanes)):
        if not program.runs_on(lane):
            medians_ms.append([math.inf] * len(program))
            continue
        requests = closed(1, warm_up + repeats)
        schedule = executed([network], requests, lanes, OneLane(lane))
        samples_ms: list[list[float]] = [[] for _ in kinds]
        for ran in schedule.executed:
            if ran.job.request >= warm_up:
                samples_ms[ran.job.index].append(ran.end_ms - ran.start_ms)
        medians_ms.append(np.median(samples_ms, axis=1).tolist())
    return Chain(name, kinds, tuple(zip(*medians_ms, strict=True)))


@final
class _Execution:
    def __init__(
        self,
        networks: Sequence[ServedNetwork],
        requests: Sequence[Request],
        lanes: Sequence[RealLane],
        dispatcher: Dispatcher,
    ) -> None:
        self._networks = networks
        self._requests = requests
        self._lanes = lanes
        self._dispatcher = dispatcher
        self._events: SimpleQueue[Began | Ended] = SimpleQueue()
        self._begin_s = time.perf_counter()
        self._inferences: dict[int, ActiveInference] = {}
        self._latest: dict[int, Completion] = {}
        """Completion of the last job put, by request."""
        self._underway: list[dict[Job, Ticket]] = [{} for _ in lanes]
        """Jobs on each lane, in the order in which they were put."""
        self._jobs_of: Counter[int] = Counter()
        """Number of jobs on lanes, by request."""
        self.executed: list[Executed] = []
        self.results: dict[int, Tensor | BaseException] = {}

    def run(self) -> None:
        arrivals = deque(
            sorted(range(len(self._requests)), key=lambda i: self._requests[i].arrival_ms)
        )
        while len(self.results) < len(self._requests) or any(self._underway):
            if arrivals and self._requests[arrivals[0]].arrival_ms <= self._now_ms():
                self._put(self._dispatcher.arrived(arrivals.popleft(), self._now_ms()))
                continue
            try:
                self._handle(self._events.get(timeout=self._until_next(arrivals)))
            except Empty:  # the next request arrives
                continue

    def _until_next(self, arrivals: deque[int]) -> float | None:
        if not arrivals:
            return None
        return max((self._requests[arrivals[0]].arrival_ms - self._now_ms()) / 1e3, 0.0)

    def _now_ms(self) -> float:
        return 1e3 * (time.perf_counter() - self._begin_s)

    def _put(self, ticket: Ticket | None) -> None:
        if ticket is None:
            return
        job = ticket.job
        if job.request not in self._inferences:
            network = self._networks[job.network]
            self._inferences[job.request] = network.program.start(network.x)
        self._underway[ticket.lane][job] = ticket
        self._jobs_of[job.request] += 1
        before = self._latest.get(job.request)
        self._latest[job.request] = self._lanes[ticket.lane].put(
            ticket,
            self._inferences[job.request].job(job.index, ticket.lane),
            self._events,
            None if ticket.previous_lane in {None, ticket.lane} else before,
        )

    def _handle(self, event: Began | Ended) -> None:
        ticket = event.ticket
        if isinstance(event, Began):
            self._put(self._dispatcher.taken(ticket, self._now_ms()))
            return
        del self._underway[ticket.lane][ticket.job]
        request = ticket.job.request
        self._jobs_of[request] -= 1
        if event.error is not None:
            self.results.setdefault(request, event.error)
            next_ticket = self._dispatcher.failed(ticket, self._now_ms())
            self._forget(request)
            self._put(next_ticket)
            return
        start_ms, end_ms = (1e3 * (at_s - self._begin_s) for at_s in (event.began_s, event.ended_s))
        self.executed.append(Executed(ticket.job, ticket.lane, start_ms, end_ms))
        if self._dispatcher.is_last(ticket.job) and request not in self.results:
            self.results[request] = self._inferences[request].output
        next_ticket = self._dispatcher.ended(ticket, self._now_ms())
        self._forget(request)
        self._put(next_ticket)

    def _forget(self, request: int) -> None:
        """Release the tensors of a request that is over and has no job on a lane."""
        if request in self.results and self._jobs_of[request] == 0:
            self._inferences.pop(request, None)
            self._latest.pop(request, None)
            del self._jobs_of[request]
