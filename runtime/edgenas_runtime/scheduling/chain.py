"""Jobs of networks, lanes and requests: the input of every scheduler."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from edgenas_runtime.network.segment_kind import SegmentKind


@final
@dataclass(frozen=True)
class Lane:
    """Description of a lane, on which jobs run one after another."""

    name: str
    asynchronous: bool = False
    """True for a GPU stream: a job is launched as soon as it is put, and the network's next job may
    be placed at that launch. False for a CPU core: a worker takes a job when it is free, and the
    network's next job is placed when it has ended."""


@final
@dataclass(frozen=True)
class Chain:
    """The jobs of one network; each needs the result of the one before it."""

    name: str
    kinds: tuple[SegmentKind, ...]
    predicted_ms: tuple[tuple[float, ...], ...]
    """Predicted duration by job, then by lane; infinite where a lane cannot run the job."""

    def __post_init__(self) -> None:
        """Check the times.

        Raises:
          ValueError: if there is no job, kinds and times differ in number, a time is negative or
            NaN, or no lane can run a job.
        """
        if len(self.kinds) != len(self.predicted_ms) or not self.kinds:
            raise ValueError(
                f"{self.name} has {len(self.kinds)} job kinds and {len(self.predicted_ms)} job times"
            )
        for kind, times in zip(self.kinds, self.predicted_ms, strict=True):
            if not all(time >= 0 for time in times) or not any(map(math.isfinite, times)):
                raise ValueError(
                    f"{self.name} has a {kind.value} job with invalid times {times} ms"
                )

    def __len__(self) -> int:
        return len(self.kinds)


@final
@dataclass(frozen=True)
class Request:
    """One inference of a network; requests of one network run one after another."""

    network: int
    """Index of the network's chain."""
    arrival_ms: float = 0.0
    deadline_ms: float = math.inf
    """Relative to the arrival."""


@final
@dataclass(frozen=True)
class Job:
    """One job of one request."""

    request: int
    """Index in the list of requests."""
    network: int
    index: int
    """Position in the chain."""


def check(chains: Sequence[Chain], requests: Sequence[Request], lanes: Sequence[Lane]) -> None:
    """Check that chains, requests and lanes fit together.

    Raises:
      ValueError: if a chain has times for another number of lanes, or a request is invalid.
    """
    for chain in chains:
        for times in chain.predicted_ms:
            if len(times) != len(lanes):
                raise ValueError(
                    f"{chain.name} has times for {len(times)} lanes, but there are {len(lanes)}"
                )
    check_requests(requests, len(chains))


def check_requests(requests: Sequence[Request], networks: int) -> None:
    """Check requests to a number of networks.

    Raises:
      ValueError: if a request names a network that does not exist, arrives before 0, is due before
        it arrives.
    """
    for request in requests:
        if not 0 <= request.network < networks:
            raise ValueError(
                f"a request names network {request.network}, but there are {networks} networks"
            )
        if not 0 <= request.arrival_ms < math.inf:
            raise ValueError(f"arrival_ms={request.arrival_ms} must be at least 0 and finite")
        if not request.deadline_ms >= 0:
            raise ValueError(f"deadline_ms={request.deadline_ms} must be at least 0")
