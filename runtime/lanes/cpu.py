"""Lanes that compute: a worker thread a core of the CPU."""

from __future__ import annotations

import math
import os
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Condition, Thread, current_thread
from types import TracebackType
from typing import Protocol, final, runtime_checkable

import torch

from runtime.network.completion import Completion, Compute, HostCompletion
from runtime.network.engine import EagerEngine, Engine
from runtime.scheduling.chain import Lane
from runtime.scheduling.dispatcher import Ticket
from runtime.scheduling.order import insert


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


class Events(Protocol):
    """Where a lane tells what happened, from any thread."""

    def put(self, event: Began | Ended, /) -> None:
        """Tells it."""


@runtime_checkable
class RealLane(Protocol):
    """Runs jobs one after another.

    An asynchronous lane runs them in the order in which they were put, a
    synchronous one by the rank of their tickets, and equals in that order.
    """

    @property
    @abstractmethod
    def lane(self) -> Lane:
        """What a scheduler knows of it."""

    @property
    @abstractmethod
    def engine(self) -> Engine:
        """What makes jobs for it."""

    @abstractmethod
    def put(
        self,
        ticket: Ticket,
        compute: Compute,
        events: Events,
        after: Completion | None = None,
    ) -> Completion:
        """Queues a job; `events` gets a Began and an Ended of its ticket, whatever it raises.

        A synchronous lane says Began before it computes. An asynchronous one says it when the job
        is launched, for the next job may then be put, here or elsewhere; it says nothing but Ended
        of a job that could not be launched.

        Args:
          ticket: the job.
          compute: what it does.
          events: who is told.
          after: the job does not begin before this has ended; should that have raised, it never
            begins, and ends with the same error.

        Raises:
          RuntimeError: if the lane is closed.
        """

    @abstractmethod
    def withdraw(self) -> tuple[Ticket, ...]:
        """Takes back all jobs that have not begun; they never will.

        An asynchronous lane gives none of those launched.
        """

    @abstractmethod
    def close(self, wait_s: float = 10.0) -> bool:
        """Begins no further job, and waits for the one that runs; whether it ended in time."""


@final
@dataclass(frozen=True)
class _Item:
    compute: Compute
    after: Completion | None
    completion: HostCompletion
    ticket: Ticket | None
    events: Events | None
    """None if nobody is to be told."""


@final
class CpuLane(RealLane):
    """A thread, pinned to a core if one is named, with torch on one thread and without gradients.

    To be used in a `with` statement. A job that never ends cannot be stopped, but does not keep the
    interpreter from ending either.
    """

    def __init__(
        self,
        core: int | None = None,
        *,
        name: str | None = None,
        slowdown: float = 1.0,
        engine: Engine | None = None,
        asynchronous: bool = False,
    ) -> None:
        """Starts the worker.

        Args:
          core: which of the process's cores; None leaves the choice to the system.
          name: None for the core's.
          slowdown: at least 1; after each job the lane sleeps until it took so many times as long,
            which makes a slower core of this one.
          engine: what makes jobs for it; None for eager torch.
          asynchronous: whether a job counts as launched when it is put, as on a stream of a GPU;
            the next job of its network may then be put behind it at once.

        Raises:
          ValueError: if the process may not use the core, or the slowdown is under 1 or not finite.
          RuntimeError: if a core is given on a system that cannot pin a thread.
        """
        if core is not None:
            check_core(core)
        if not 1 <= slowdown < math.inf:
            raise ValueError(f"a slowdown of {slowdown} must be at least 1 and finite")
        default = "cpu" if core is None else f"cpu{core}"
        self._lane = Lane(default if name is None else name, asynchronous)
        self._engine = EagerEngine() if engine is None else engine
        self._core = core
        self._slowdown = slowdown
        self._queue: deque[_Item] = deque()
        self._running: _Item | None = None
        self._closed = False
        self._changed = Condition()
        self._thread = Thread(target=self._work, name=self._lane.name, daemon=True)
        self._thread.start()

    @property
    def lane(self) -> Lane:
        """What a scheduler knows of it."""
        return self._lane

    @property
    def engine(self) -> Engine:
        """What makes jobs for it."""
        return self._engine

    def put(
        self,
        ticket: Ticket,
        compute: Compute,
        events: Events,
        after: Completion | None = None,
    ) -> Completion:
        """Queues a job."""
        return self._queued(_Item(compute, after, HostCompletion(), ticket, events))

    def launch(self, compute: Compute, after: Completion | None = None) -> Completion:
        """Queues a job of which nobody needs to hear.

        Raises:
          RuntimeError: if the lane is closed.
        """
        return self._queued(_Item(compute, after, HostCompletion(), None, None))

    def issue(self, compute: Compute) -> Completion:
        """As `launch`: knowing when a job ended costs nothing here."""
        return self.launch(compute)

    def renew_origin(self) -> None:
        """Its clock is the computer's."""

    def withdraw(self) -> tuple[Ticket, ...]:
        """Takes back all jobs that have not begun.

        Of an asynchronous lane they count as launched: who waits for one is told that it ended.
        """
        with self._changed:
            items = tuple(self._queue)
            self._queue.clear()
        error = CancelledError(f"lane {self._lane.name} gave the job back")
        for item in items:
            if self._lane.asynchronous:
                self._end(item, math.nan, error)
            else:
                item.completion.end(math.nan, math.nan, error)
        if self._lane.asynchronous:
            return ()
        return tuple(item.ticket for item in items if item.ticket is not None)

    def close(self, wait_s: float = 10.0) -> bool:
        """Begins no further job, and waits for the one that runs.

        Should that one not end in time, it is taken for lost: who waits for it waits no longer.
        """
        with self._changed:
            self._closed = True
            self._changed.notify()
        if current_thread() is not self._thread:
            self._thread.join(wait_s)
        running = self._running
        if running is not None and self._thread.is_alive():
            error = CancelledError(f"lane {self._lane.name} was closed while the job ran")
            running.completion.end(math.nan, math.nan, error)
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
        self.withdraw()

    def _queued(self, item: _Item) -> Completion:
        with self._changed:
            if self._closed:
                raise RuntimeError(f"lane {self._lane.name} is closed")
            if self._lane.asynchronous:
                self._queue.append(item)
                self._say_began(item, time.perf_counter())
            else:
                insert(self._queue, item, _rank)
            self._changed.notify()
        return item.completion

    def _work(self) -> None:
        with one_core(self._core):
            while (item := self._take()) is not None:
                self._run(item)
                del item  # holds tensors while the lane waits for the next

    def _take(self) -> _Item | None:
        with self._changed:
            self._running = None
            self._changed.wait_for(lambda: self._closed or self._queue)
            self._running = None if self._closed else self._queue.popleft()
            return self._running

    def _run(self, item: _Item) -> None:
        error: BaseException | None = None
        began_s = time.perf_counter()
        if not self._lane.asynchronous:
            self._say_began(item, began_s)
        try:
            if item.after is not None:
                item.after.wait()
                began_s = time.perf_counter()
            item.compute()
        except BaseException as raised:  # noqa: BLE001 - a lane outlives whatever its jobs raise
            error = raised
        if self._slowdown > 1:
            time.sleep((self._slowdown - 1) * (time.perf_counter() - began_s))
        self._end(item, began_s, error)

    @staticmethod
    def _say_began(item: _Item, at_s: float) -> None:
        if item.ticket is not None and item.events is not None:
            item.events.put(Began(item.ticket, at_s))

    @staticmethod
    def _end(item: _Item, began_s: float, error: BaseException | None) -> None:
        ended_s = time.perf_counter()
        item.completion.end(began_s, ended_s, error)
        if item.ticket is not None and item.events is not None:
            item.events.put(Ended(item.ticket, began_s, ended_s, error))


def _rank(item: _Item) -> float:
    return 0.0 if item.ticket is None else item.ticket.rank


@contextmanager
def one_core(core: int | None) -> Iterator[None]:
    """This thread on one core, with torch on one thread and without gradients.

    The core and torch's threads stay as they are set.
    """
    if core is not None:
        os.sched_setaffinity(0, {core})  # 0 is this thread, not the process
    torch.set_num_threads(1)  # of this thread
    with torch.inference_mode():
        yield


def check_core(core: int) -> None:
    """Refuses a core that this process cannot pin a thread to.

    Raises:
      ValueError: if the process may not use it.
      RuntimeError: if this system cannot pin a thread.
    """
    if not hasattr(os, "sched_setaffinity"):
        raise RuntimeError("this system cannot pin a thread to a core; leave the core out")
    usable = sorted(os.sched_getaffinity(0))
    if core not in usable:
        raise ValueError(f"core {core} is not among the process's cores {usable}")
