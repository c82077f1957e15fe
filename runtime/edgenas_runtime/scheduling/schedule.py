"""A schedule: the lane and the time of each job, simulated or measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import final

from edgenas_runtime.scheduling.chain import Chain, Job, Lane, Request


@final
@dataclass(frozen=True)
class Executed:
    """A job that ran to completion."""

    job: Job
    lane: int
    start_ms: float
    end_ms: float


@final
@dataclass(frozen=True)
class Schedule:
    """All jobs that ran to completion, sorted by start."""

    chains: tuple[Chain, ...]
    lanes: tuple[Lane, ...]
    requests: tuple[Request, ...]
    executed: tuple[Executed, ...]

    @cached_property
    def completion_ms(self) -> tuple[float | None, ...]:
        """End of the last job of each request; None if the request did not complete."""
        ends: dict[int, float] = {
            ran.job.request: ran.end_ms
            for ran in self.executed
            if ran.job.index == len(self.chains[ran.job.network]) - 1
        }
        return tuple(ends.get(request) for request in range(len(self.requests)))

    def of_lane(self, lane: int) -> Iterator[Executed]:
        """Return the jobs that ran on one lane, sorted by start."""
        return (ran for ran in self.executed if ran.lane == lane)
