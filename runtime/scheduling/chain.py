"""A network as a scheduler sees it, and when it is asked for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from runtime.network.segment_kind import Kind


@final
@dataclass(frozen=True)
class Lane:
    """What a scheduler knows of a lane: jobs run on it one after another, as they were put."""

    name: str
    asynchronous: bool = False
    """Jobs are launched as soon as they are put, and the next job of a network may be placed at
    the launch, before the end: a stream of a GPU. Otherwise a worker takes a job when it is free
    and the next job is placed at the end: a core of a CPU."""


@final
@dataclass(frozen=True)
class Chain:
    """The jobs of one network, each needing the one before it."""

    name: str
    kinds: tuple[Kind, ...]
    predicted_ms: tuple[tuple[float, ...], ...]
    """By job, then by lane; infinite where a lane cannot run the job."""

    def __post_init__(self) -> None:
        """Checks the times.

        Raises:
          ValueError: if there is no job, kinds and times differ in number, a time is negative or
            not a number, or no lane can run a job.
        """
        if len(self.kinds) != len(self.predicted_ms) or not self.kinds:
            raise ValueError(
                f"{self.name} has {len(self.kinds)} kinds and {len(self.predicted_ms)} times of jobs"
            )
        for kind, times in zip(self.kinds, self.predicted_ms, strict=True):
            if not all(time >= 0 for time in times) or not any(map(math.isfinite, times)):
                raise ValueError(f"{self.name} has a job, {kind.value}, of {times} ms")

    def __len__(self) -> int:
        return len(self.kinds)


@final
@dataclass(frozen=True)
class Request:
    """One inference of a network; those of one network run one after another."""

    network: int
    """Index of its chain."""
    arrival_ms: float = 0.0
    deadline_ms: float = math.inf
    """After the arrival."""
    priority: int = 0
    """The least is first, where priorities count."""


@final
@dataclass(frozen=True)
class Job:
    """One job of one request."""

    request: int
    """Index into the list of requests."""
    network: int
    index: int
    """Its place in the chain."""


def check(chains: Sequence[Chain], requests: Sequence[Request], lanes: Sequence[Lane]) -> None:
    """Refuses what cannot be scheduled.

    Raises:
      ValueError: if a chain has times for another number of lanes, or a request cannot be served.
    """
    for chain in chains:
        for times in chain.predicted_ms:
            if len(times) != len(lanes):
                raise ValueError(f"{chain.name} has times for {len(times)} lanes of {len(lanes)}")
    check_requests(requests, len(chains))


def check_requests(requests: Sequence[Request], networks: int) -> None:
    """Refuses what cannot be served.

    Raises:
      ValueError: if a request names none of so many networks, arrives before 0, is due before it
        arrives, or has a priority that is not a number.
    """
    for request in requests:
        if not 0 <= request.network < networks:
            raise ValueError(f"a request names network {request.network} of {networks}")
        if not 0 <= request.arrival_ms < math.inf:
            raise ValueError(f"a request arrives at {request.arrival_ms} ms")
        if not request.deadline_ms >= 0:
            raise ValueError(f"a request is due {request.deadline_ms} ms after its arrival")
        if math.isnan(request.priority):
            raise ValueError(f"a request has the priority {request.priority}")
