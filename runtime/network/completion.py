"""The end of a job, for whoever has to wait for it."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from threading import Lock
from typing import Protocol, final, runtime_checkable

Compute = Callable[[], None]
"""What a job does: it reads and writes memory that it knows of."""


@runtime_checkable
class Completion(Protocol):
    """Of one job, given out when it is launched. Clocks are `time.perf_counter`."""

    @abstractmethod
    def wait(self) -> None:
        """Returns when the job has ended.

        Raises:
          BaseException: what the job raised, or why it never ran.
        """

    @property
    @abstractmethod
    def has_succeeded(self) -> bool:
        """Whether it has ended, and raised nothing."""

    @property
    @abstractmethod
    def error(self) -> BaseException | None:
        """What it raised; None if nothing, or if only `wait` would find out."""

    @property
    @abstractmethod
    def began_s(self) -> float:
        """When it began; not a number before its end."""

    @property
    @abstractmethod
    def ended_s(self) -> float:
        """When it ended; not a number before."""


@final
class HostCompletion(Completion):
    """Of a job that a thread of this process runs."""

    def __init__(self) -> None:
        self._over = Lock()  # a tenth of an Event's price, and there is one a job
        self._over.acquire()
        self._has_ended = False
        self._began_s = self._ended_s = math.nan
        self._error: BaseException | None = None

    def end(self, began_s: float, ended_s: float, error: BaseException | None) -> None:
        """Lets everyone go who waits; only the first call counts."""
        if not self._has_ended:
            self._began_s, self._ended_s, self._error = began_s, ended_s, error
            self._has_ended = True
            self._over.release()

    def wait(self) -> None:
        """Returns when the job has ended."""
        with self._over:  # and on to the next who waits
            pass
        if self._error is not None:
            raise self._error

    @property
    def has_succeeded(self) -> bool:
        """Whether it has ended, and raised nothing."""
        return self._has_ended and self._error is None

    @property
    def error(self) -> BaseException | None:
        """What it raised, if it has ended."""
        return self._error

    @property
    def began_s(self) -> float:
        """When it began."""
        return self._began_s

    @property
    def ended_s(self) -> float:
        """When it ended."""
        return self._ended_s
