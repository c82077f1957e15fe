"""CPU lanes: one worker thread per core."""

from __future__ import annotations

import math
import os
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Condition, Thread, current_thread
from typing import final

import torch

from edgenas_runtime.lanes.base import Began, Ended, Events, RealLane
from edgenas_runtime.network.completion import Completion, Compute, HostCompletion
from edgenas_runtime.network.engine import EagerEngine, Engine
from edgenas_runtime.scheduling.chain import Lane
from edgenas_runtime.scheduling.dispatcher import Ticket


@final
@dataclass(frozen=True)
class _Item:
    compute: Compute
    after: Completion | None
    completion: HostCompletion
    ticket: Ticket | None
    events: Events | None
    """None if no events are wanted."""


@final
class CpuLane(RealLane):
    """A worker thread, optionally pinned to a core, with one torch thread and no gradients.

    Use it in a `with` statement. A job that never ends cannot be stopped, but it does not keep the
    interpreter from exiting.
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
        """Start the worker.

        Args:
          core: core to pin the thread to; None to leave the choice to the system.
          name: name of the lane; None for `cpu<core>`.
          slowdown: at least 1; emulates a slower core: after each job the lane sleeps until the job
            has taken `slowdown` times as long.
          engine: compiles jobs for this lane; None for eager torch.
          asynchronous: whether a job counts as launched when it is put, as on a GPU stream; the
            network's next job may then be put behind it at once.

        Raises:
          ValueError: if the process may not use the core, or the slowdown is under 1 or not finite.
          RuntimeError: if a core is given on a system that cannot pin a thread.
        """
        if core is not None:
            check_core(core)
        if not 1 <= slowdown < math.inf:
            raise ValueError(f"slowdown={slowdown} must be at least 1 and finite")
        default = "cpu" if core is None else f"cpu{core}"
        self.lane = Lane(default if name is None else name, asynchronous)
        self.engine = EagerEngine() if engine is None else engine
        self._core = core
        self._slowdown = slowdown
        self._queue: deque[_Item] = deque()
        self._running: _Item | None = None
        self._closed = False
        self._changed = Condition()
        self._thread = Thread(target=self._work, name=self.lane.name, daemon=True)
        self._thread.start()

    def put(
        self,
        ticket: Ticket,
        compute: Compute,
        events: Events,
        after: Completion | None = None,
    ) -> Completion:
        """Queue a job."""
        return self._queued(_Item(compute, after, HostCompletion(), ticket, events))

    def launch(self, compute: Compute, after: Completion | None = None) -> Completion:
        """Queue a job without events.

        Raises:
          RuntimeError: if the lane is closed.
        """
        return self._queued(_Item(compute, after, HostCompletion(), None, None))

    def issue(self, compute: Compute) -> Completion:
        """Same as `launch`; on a GPU lane, `issue` saves the cost of a completion."""
        return self.launch(compute)

    def renew_origin(self) -> None:
        """Do nothing: a CPU lane uses the host clock."""

    def withdraw(self) -> None:
        """Drop all jobs that have not begun: they end with a CancelledError."""
        with self._changed:
            items = tuple(self._queue)
            self._queue.clear()
        error = CancelledError(f"the job was withdrawn from lane {self.lane.name}")
        for item in items:
            self._end(item, math.nan, error)

    def close(self, wait_s: float = 10.0) -> bool:
        """Begin no further job and wait for the running one; return whether it ended in time.

        If it did not, its completion ends with a CancelledError, so that nothing waits for it.
        """
        with self._changed:
            self._closed = True
            self._changed.notify()
        if current_thread() is not self._thread:
            self._thread.join(wait_s)
        running = self._running
        if running is not None and self._thread.is_alive():
            error = CancelledError(f"lane {self.lane.name} was closed while the job ran")
            running.completion.end(math.nan, math.nan, error)
        return not self._thread.is_alive()

    def __enter__(self) -> CpuLane:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        self.withdraw()

    def _queued(self, item: _Item) -> Completion:
        with self._changed:
            if self._closed:
                raise RuntimeError(f"lane {self.lane.name} is closed")
            if self.lane.asynchronous:
                self._say_began(item, time.perf_counter())
            self._queue.append(item)
            self._changed.notify()
        return item.completion

    def _work(self) -> None:
        with one_core(self._core):
            while (item := self._take()) is not None:
                self._run(item)
                del item  # else its tensors are kept while the lane waits for the next job

    def _take(self) -> _Item | None:
        with self._changed:
            self._running = None
            self._changed.wait_for(lambda: self._closed or self._queue)
            self._running = None if self._closed else self._queue.popleft()
            return self._running

    def _run(self, item: _Item) -> None:
        error: BaseException | None = None
        began_s = time.perf_counter()
        if not self.lane.asynchronous:
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


@contextmanager
def one_core(core: int | None) -> Iterator[None]:
    """Run this thread on one core (None: any), with one torch thread and without gradients.

    Affinity and number of torch threads are not restored.
    """
    if core is not None:
        os.sched_setaffinity(0, {core})  # 0 is this thread, not the process
    torch.set_num_threads(1)  # of this thread
    with torch.inference_mode():
        yield


def check_core(core: int) -> None:
    """Check that this process can pin a thread to a core.

    Raises:
      ValueError: if the process may not use it.
      RuntimeError: if this system cannot pin a thread.
    """
    if not hasattr(os, "sched_setaffinity"):
        raise RuntimeError("this system cannot pin a thread to a core; use core=None")
    usable = sorted(os.sched_getaffinity(0))
    if core not in usable:
        raise ValueError(f"core {core} is not among the process's cores {usable}")
