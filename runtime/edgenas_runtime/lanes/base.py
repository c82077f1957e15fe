"""Interface of the lanes that run jobs on this machine, and the events that they report."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Protocol, final, runtime_checkable

from edgenas_runtime.network.completion import Completion, Compute
from edgenas_runtime.network.engine import Engine
from edgenas_runtime.scheduling.chain import Lane
from edgenas_runtime.scheduling.dispatcher import Ticket


@final
@dataclass(frozen=True)
class Began:
    """Event: a worker took a job, or it was launched; times are `time.perf_counter`."""

    ticket: Ticket
    at_s: float


@final
@dataclass(frozen=True)
class Ended:
    """Event: a job ended or raised."""

    ticket: Ticket
    began_s: float
    ended_s: float
    error: BaseException | None


class Events(Protocol):
    """Queue that receives a lane's events, from any thread."""

    def put(self, event: Began | Ended, /) -> None:
        """Add an event."""


@runtime_checkable
class RealLane(Protocol):
    """Runs jobs one after another, in the order in which they were put."""

    lane: Lane
    """Description of the lane for the scheduler."""
    engine: Engine
    """Engine that compiles jobs for this lane."""

    @abstractmethod
    def put(
        self,
        ticket: Ticket,
        compute: Compute,
        events: Events,
        after: Completion | None = None,
    ) -> Completion:
        """Queue a job; `events` receives Began and Ended for its ticket, even if the job raises.

        A synchronous lane reports Began before it computes. An asynchronous lane reports it at the
        launch, when the network's next job may be put on any lane; a job that could not be launched
        is reported by Ended only.

        The job begins when `after` has ended; if that raised, the job ends with the same error.

        Raises:
          RuntimeError: if the lane is closed.
        """

    @abstractmethod
    def withdraw(self) -> None:
        """Drop all jobs that have not begun, except launched ones; they end with a CancelledError."""

    @abstractmethod
    def close(self, wait_s: float = 10.0) -> bool:
        """Begin no further job and wait for the running one; return whether it ended in time."""
