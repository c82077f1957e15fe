"""Hogs and isolation around a measurement, for the duration of a `with` statement.

    with Contention([MemoryHog(core=1)], limit_mb_per_s=1000, isolation=Isolation.fine_lock) as beside:
        measure(beside.during(infer))
        beside.gb_per_s()  # bandwidth of each hog meanwhile

Hogs are started once, and parked whenever the network runs alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, final

from edgenas_core.contention.hogs.control_page import GB, MB, MOST_HOGS, ControlPage
from edgenas_core.contention.hogs.hog import Hog, HogContext, RunningHog
from edgenas_core.contention.isolation import Isolation, Stop
from edgenas_core.types.closeable import Closeable

if TYPE_CHECKING:
    import torch

    from edgenas_core.inference.cuda.sm_slices import SmSlice

_SETTLE_S = 0.01
"""A few periods: hogs read their budgets at the end of a period."""


@final
class RunningHogs(Closeable):
    """A set of hogs with their control page. A context manager."""

    def __init__(self, hogs: Sequence[Hog], victim_sms: int | None = None) -> None:
        """Start the hogs parked: they move nothing until `set_budgets`.

        With `victim_sms` they keep off that many multiprocessors of the GPU.

        Raises:
          ValueError: if a hog cannot run here, or there are too many.
          OSError: if a process cannot be started.
        """
        if len(hogs) > MOST_HOGS:
            raise ValueError(f"{len(hogs)} hogs are too many; the maximum is {MOST_HOGS}")
        self.hogs = tuple(hogs)
        self._running: list[RunningHog] = []
        with ExitStack() as opened:
            self.page = ControlPage()
            opened.callback(self.page.close)
            self.slices: Sequence[SmSlice] = ()
            if victim_sms is not None:
                from edgenas_core.contention.hogs.gpu_hogs import partition  # noqa: PLC0415 - needs a GPU

                self.slices = opened.enter_context(partition(victim_sms))
            context = HogContext(self.page, self.slices[1] if self.slices else None)
            for k, hog in enumerate(hogs):
                self.page.set_budget(k, 0.0, 0.0)
                self._running.append(hog.start(context, k))
                opened.callback(self._running[-1].close)
            self._opened = opened.pop_all()
        self._mark = self._read()

    @property
    def process_ids(self) -> list[int]:
        """Ids of the hogs that are processes."""
        return [hog.process_id for hog in self._running if hog.process_id is not None]

    def set_budgets(self, budgets: Sequence[tuple[float, float]]) -> None:
        """Set the budget of each hog in MB/s: while the lock is free, and while it is held."""
        for k, (free, locked) in enumerate(budgets):
            self.page.set_budget(k, free, locked)
        time.sleep(_SETTLE_S)
        self._mark = self._read()

    def park(self) -> None:
        """Make all hogs sleep."""
        self.set_budgets([(0.0, 0.0)] * len(self.hogs))

    def gb_per_s(self) -> list[float]:
        """Return the bandwidth of each hog since the previous call or budget; GB of 10 ** 9 bytes.

        Raises:
          RuntimeError: if a hog has ended, which invalidates the measurement.
        """
        for hog, running in zip(self.hogs, self._running, strict=True):
            if running.fault is not None:
                raise RuntimeError(
                    f"a {hog.name} hog ended during the measurement: {running.fault}"
                )
        before, self._mark = self._mark, self._read()
        taken_s = self._mark[0] - before[0]
        pairs = zip(before[1], self._mark[1], strict=True)
        return [(now - then) / taken_s / GB for then, now in pairs]

    def close(self) -> None:
        """End all hogs."""
        self._opened.close()

    def _read(self) -> tuple[float, list[int]]:
        return time.perf_counter(), [self.page.moved(k) for k in range(len(self.hogs))]


@final
class Contention:
    """Context manager: hogs run inside it, under an isolation."""

    def __init__(
        self,
        hogs: Sequence[Hog] | RunningHogs,
        *,
        limit_mb_per_s: float | None = None,
        isolation: Isolation = Isolation.none,
        count: int | None = None,
        victim_sms: int | None = None,
    ) -> None:
        """Check the arguments; nothing runs before the context is entered.

        Args:
          hogs: hogs to start on entry and end on exit; or `RunningHogs`, which are resumed on entry
            and parked on exit.
          limit_mb_per_s: bandwidth limit of each hog while the isolation is active; MB of 2 ** 20
            bytes.
          isolation: protection of the network.
          count: only the first `count` hogs take part; None for all.
          victim_sms: multiprocessors of the network under `Isolation.partition`, a multiple of 8.

        Raises:
          ValueError: if an argument does not fit the isolation.
        """
        isolation.check(limit_mb_per_s)
        running_sliced = isinstance(hogs, RunningHogs) and bool(hogs.slices)
        if (isolation is Isolation.partition) != (victim_sms is not None or running_sliced):
            raise ValueError(
                "isolation=partition needs victim_sms (such as 32), and no other isolation takes it"
            )
        self._described = hogs
        self._limit_mb_per_s = limit_mb_per_s
        self._isolation = isolation
        self._count = count
        self._victim_sms = victim_sms
        self._stream: torch.cuda.Stream | None = None
        self._lock: Callable[[], None] = _nothing
        self._unlock: Callable[[], None] = _nothing

    def __enter__(self) -> Contention:
        """Start or resume the hogs.

        Raises:
          ValueError: if this machine lacks a requirement; the message names an alternative.
        """
        with ExitStack() as opened:
            if isinstance(self._described, RunningHogs):
                self._hogs = self._described
            else:
                self._hogs = opened.enter_context(RunningHogs(self._described, self._victim_sms))
            opened.callback(self._hogs.park)
            if self._isolation is Isolation.stop:
                limit = Stop(self._process_ids())
                opened.callback(limit.close)
                self._lock, self._unlock = limit.apply, limit.release
            elif self._isolation is Isolation.fine_lock:
                self._lock, self._unlock = self._hogs.page.lock, self._hogs.page.unlock
                opened.callback(self._unlock)
            self._hogs.set_budgets(
                [
                    self._isolation.budgets(demand, self._limit_mb_per_s)
                    for demand in self._demands_mb_per_s()
                ]
            )
            self._opened = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the lock while the network runs; no effect under an isolation without a lock."""
        self._lock()
        try:
            yield
        finally:
            self._unlock()

    def during(self, inference: Callable[[], object]) -> Callable[[], None]:
        """Wrap an inference in the lock; a GPU inference must synchronise before it returns."""
        return partial(self._locked, inference)

    def gb_per_s(self) -> list[float]:
        """Return the bandwidth of each hog since entry or the previous call; GB of 10 ** 9 bytes."""
        return self._hogs.gb_per_s()

    @property
    def stream(self) -> torch.cuda.Stream:
        """CUDA stream on which to prepare and run the network.

        Raises:
          ValueError: if there is no GPU.
        """
        if self._stream is None:
            from edgenas_core.contention.hogs.gpu_hogs import victim_streams  # noqa: PLC0415 - needs a GPU

            pool, priority = victim_streams(
                self._hogs.slices, is_first=self._isolation is Isolation.priority
            )
            self._stream = pool.take(priority)
            self._opened.callback(pool.give_back, self._stream)
        return self._stream

    def _demands_mb_per_s(self) -> list[float]:
        """Return the unlimited demand of each hog; 0 for those that take no part."""
        hogs = self._hogs.hogs
        count = len(hogs) if self._count is None else self._count
        return [hog.gb_per_s * GB / MB if k < count else 0.0 for k, hog in enumerate(hogs)]

    def _locked(self, inference: Callable[[], object]) -> None:
        self._lock()
        try:
            inference()
        finally:
            self._unlock()

    def _process_ids(self) -> list[int]:
        processes = self._hogs.process_ids
        if len(processes) < len(self._hogs.hogs):
            raise ValueError(
                "isolation=stop limits processes, and a GPU hog is a thread; use isolation=budget"
            )
        return processes


def _nothing() -> None:
    return None
