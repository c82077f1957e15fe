"""Interface of the policies that choose a lane for each job, on real and on simulated lanes."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Protocol, final, runtime_checkable

from edgenas_runtime.network.segment_kind import SegmentKind
from edgenas_runtime.scheduling.chain import Job, Lane


@final
@dataclass(frozen=True)
class PlacementContext:
    """Input of a placement decision; every tuple has one entry per lane."""

    job: Job
    kind: SegmentKind
    lanes: tuple[Lane, ...]
    predicted_ms: tuple[float, ...]
    """Infinite where a lane cannot run the job."""
    queue_ms: tuple[float, ...]
    """QTime of figure 4-5: sum of the charges of the jobs put on the lane, until a worker takes them
    or, on an asynchronous lane, until they end."""
    backlog_ms: tuple[float, ...]
    """Predicted time until the lane is idle: QTime plus the remaining time of the running job."""
    previous_lane: int | None
    """Lane of the previous job of the request; None for the first job."""
    ready_ms: float
    """Predicted time until the previous job of the request ends; 0 if it has ended."""


@final
@dataclass(frozen=True)
class Placement:
    """Decision of a policy."""

    lane: int
    charged_ms: float
    """Amount added to the lane's queue time until the job starts or ends."""


@runtime_checkable
class Policy(Protocol):
    """Chooses the lane of one job at a time. Stateless: everything known is in the context."""

    @abstractmethod
    def place(self, context: PlacementContext) -> Placement:
        """Return the lane for this job."""
