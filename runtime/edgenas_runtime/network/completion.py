"""Completion of a job: waiting for its end, its error and its timestamps."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from threading import Lock
from typing import Protocol, final, runtime_checkable

Compute = Callable[[], None]
"""The work of a job; it reads and writes memory bound to it."""


@runtime_checkable
class Completion(Protocol):
    """Handle of one launched job, like a future. Clocks are `time.perf_counter`."""

    @abstractmethod
    def wait(self) -> None:
        """Block until the job has ended.

        Raises:
          BaseException: the job's exception, or the reason why it never ran.
        """

    @property
    @abstractmethod
    def error(self) -> BaseException | None:
        """The job's exception; None if there is none or only `wait` can find out."""

    @property
    @abstractmethod
    def began_s(self) -> float:
        """Start, in seconds; NaN until the job has ended."""

    @property
    @abstractmethod
    def ended_s(self) -> float:
        """End, in seconds; NaN until the job has ended."""


@final
class HostCompletion:
    """`Completion` of a job that a thread of this process runs."""

    def __init__(self) -> None:
        self._over = Lock()  # costs a tenth of an Event; there is one per job
        self._over.acquire()
        self._has_ended = False
        self.began_s = self.ended_s = math.nan
        self.error: BaseException | None = None

    def end(self, began_s: float, ended_s: float, error: BaseException | None) -> None:
        """Mark the job as ended and wake all waiters; later calls have no effect."""
        if not self._has_ended:
            self.began_s, self.ended_s, self.error = began_s, ended_s, error
            self._has_ended = True
            self._over.release()

    def wait(self) -> None:
        """Block until the job has ended."""
        with self._over:  # passes the lock on to the next waiter
            pass
        if self.error is not None:
            raise self.error
