"""Who decides which lane a job goes to: one interface for real lanes and simulated ones."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, final, runtime_checkable

from runtime.network.segment_kind import Kind
from runtime.scheduling.chain import Job, Lane


@final
@dataclass(frozen=True)
class Outlook:
    """What of one network has arrived and is not on a lane."""

    jobs: tuple[tuple[bool, tuple[float, ...]], ...]
    """Whether the job is the first of a request, and its predicted times, one a lane."""
    previous_lane: int | None
    """Where the job before them went; None if they begin a request."""
    ready_ms: float
    """When that job will have ended, as predicted; 0 if it has."""


@final
@dataclass(frozen=True)
class Situation:
    """What is known when a job is to be placed; every tuple has one entry a lane."""

    job: Job
    kind: Kind
    lanes: tuple[Lane, ...]
    predicted_ms: tuple[float, ...]
    """Infinite where a lane cannot run the job."""
    queue_ms: tuple[float, ...]
    """QTime of figure 4-5: what the jobs put to the lane were charged, until a worker takes them
    or, on an asynchronous lane, until they end."""
    backlog_ms: tuple[float, ...]
    """When the lane will be idle, as predicted: as QTime, but what is left of the job that runs
    counts on every lane."""
    previous_lane: int | None
    """Where the job before this one went; None for the first of a request."""
    ready_ms: float
    """When the job before it will have ended, as predicted; 0 if it has."""
    outlook: Callable[[], tuple[Outlook, ...]] = field(default=tuple, compare=False, repr=False)
    """All networks with jobs to be placed, this job's first with this job as the first. To be asked
    while the job is being placed; it takes time in proportion to those jobs."""


@final
@dataclass(frozen=True)
class Placement:
    """A decision."""

    lane: int
    charged_ms: float
    """What the lane's queue time grows by, and shrinks by later."""


@runtime_checkable
class Policy(Protocol):
    """Picks the lane of one job after another. It keeps no state: what is known is handed to it."""

    @abstractmethod
    def place(self, situation: Situation) -> Placement:
        """The lane for this job."""
