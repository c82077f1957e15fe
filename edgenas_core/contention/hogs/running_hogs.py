"""Hogs that are started once, and parked whenever the network runs alone."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, final

from edgenas_core.contention.hogs.control_page import GB, MOST_HOGS, ControlPage
from edgenas_core.contention.hogs.hog import Hog, HogContext, RunningHog
from edgenas_core.types.closeable import Closeable

if TYPE_CHECKING:
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
