"""Lanes that compute: a worker thread a core of the CPU."""

from __future__ import annotations

import os
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Condition, Thread
from types import TracebackType
from typing import Protocol, final, runtime_checkable

import torch

from runtime.chain import Lane
from runtime.dispatcher import Ticket


@final
@dataclass(frozen=True)
class Began:
    """A worker took a job, or it was launched; clocks are `time.perf_counter`."""

    ticket: Ticket
    at_s: float


@final
@dataclass(frozen=True)
class Ended:
    """A job ended, or raised."""

    ticket: Ticket
    began_s: float
    ended_s: float
    error: BaseException | None


Events = SimpleQueue[Began | Ended]


@runtime_checkable
class RealLane(Protocol):
    """Runs jobs one after another, in the order in which they were put."""

    @property
    @abstractmethod
    def lane(self) -> Lane:
        """What a scheduler knows of it."""

    @abstractmethod
    def put(self, ticket: Ticket, compute: Callable[[], None], events: Events) -> None:
        """Queues a job; `events` gets a Began and an Ended of its ticket, whatever it raises.

        A synchronous lane says Began before it computes. An asynchronous one says it when the job
        is launched, for the next job may then be put, here or elsewhere.

        Raises:
          RuntimeError: if the lane is closed.
        """

    @abstractmethod
    def withdraw(self) -> tuple[Ticket, ...]:
        """Takes back all jobs that have not begun; they never will."""

    @abstractmethod
    def close(self, wait_s: float = 10.0) -> bool:
        """Begins no further job, and waits for the one that runs; whether it ended in time."""


@final
class CpuLane(RealLane):
    """A thread pinned to one core, with torch on one thread and without gradients.

    To be used in a `with` statement. A job that never ends cannot be stopped, but does not keep the
    interpreter from ending either.
    """

    def __init__(
        self, core: int | None = None, *, name: str | None = None, slowdown: float = 1.0
    ) -> None:
        """Starts the worker.

        Args:
          core: which of the process's cores; None leaves the choice to the system.
          name: None for the core's.
          slowdown: at least 1; after each job the lane sleeps until it took so many times as long,
            which makes a slower core of this one.

        Raises:
          ValueError: if the process may not use the core, or the slowdown is under 1.
          RuntimeError: if a core is given on a system that cannot pin a thread.
        """
        if core is not None:
            _check(core)
        if slowdown < 1:
            raise ValueError(f"a slowdown of {slowdown} would be a speed-up")
        default = "cpu" if core is None else f"cpu{core}"
        self._lane = Lane(default if name is None else name)
        self._core = core
        self._slowdown = slowdown
        self._queue: deque[tuple[Ticket, Callable[[], None], Events]] = deque()
        self._closed = False
        self._changed = Condition()
        self._thread = Thread(target=self._work, name=self._lane.name, daemon=True)
        self._thread.start()

    @property
    def lane(self) -> Lane:
        """What a scheduler knows of it."""
        return self._lane

    def put(self, ticket: Ticket, compute: Callable[[], None], events: Events) -> None:
        """Queues a job."""
        with self._changed:
            if self._closed:
                raise RuntimeError(f"lane {self._lane.name} is closed")
            self._queue.append((ticket, compute, events))
            self._changed.notify()

    def withdraw(self) -> tuple[Ticket, ...]:
        """Takes back all jobs that have not begun."""
        with self._changed:
            tickets = tuple(ticket for ticket, _, _ in self._queue)
            self._queue.clear()
        return tickets

    def close(self, wait_s: float = 10.0) -> bool:
        """Begins no further job, and waits for the one that runs."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(wait_s)
        return not self._thread.is_alive()

    def __enter__(self) -> CpuLane:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _work(self) -> None:
        if self._core is not None:
            os.sched_setaffinity(0, {self._core})  # 0 is this thread, not the process
        torch.set_num_threads(1)  # of this thread
        with torch.inference_mode():
            while (job := self._take()) is not None:
                self._run(*job)
                del job  # holds tensors while the lane waits for the next

    def _take(self) -> tuple[Ticket, Callable[[], None], Events] | None:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._queue)
            return None if self._closed else self._queue.popleft()

    def _run(self, ticket: Ticket, compute: Callable[[], None], events: Events) -> None:
        error: BaseException | None = None
        began_s = time.perf_counter()
        events.put(Began(ticket, began_s))
        try:
            compute()
        except BaseException as raised:  # noqa: BLE001 - a lane outlives whatever its jobs raise
            error = raised
        if self._slowdown > 1:
            time.sleep((self._slowdown - 1) * (time.perf_counter() - began_s))
        events.put(Ended(ticket, began_s, time.perf_counter(), error))


def _check(core: int) -> None:
    if not hasattr(os, "sched_setaffinity"):
        raise RuntimeError("this system cannot pin a thread to a core; leave the core out")
    usable = sorted(os.sched_getaffinity(0))
    if core not in usable:
        raise ValueError(f"core {core} is not among the process's cores {usable}")
