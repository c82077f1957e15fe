"""Hogs that run beside a network, started once and parked whenever it is to be alone."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, final

from runtime.contention.hogs.control_page import MOST_HOGS, ControlPage
from runtime.contention.hogs.hog import Hog, Place, RunningHog
from runtime.contention.isolation.budget import GB
from runtime.contention.isolation.guarded import Guardian
from runtime.shell.closeable import Closes

if TYPE_CHECKING:
    from runtime.network.cuda.sm_slices import SmSlice

_UNDER_WAY_S = 0.01
"""A few periods: what hogs are told reaches them at the end of one."""


@final
class RunningHogs(Closes):
    """All hogs of a situation, one control page, one guardian. A context manager."""

    def __init__(self, hogs: Sequence[Hog], victim_sms: int | None = None) -> None:
        """Starts them, parked: they move nothing until they are told to.

        Args:
          hogs: any number up to 31.
          victim_sms: cuts the GPU: these for the network, the rest for the hogs.

        Raises:
          ValueError: if a hog cannot run here, or there are too many.
          OSError: if a process cannot be started.
        """
        if len(hogs) > MOST_HOGS:
            raise ValueError(f"{len(hogs)} hogs are too many; {MOST_HOGS} at most")
        self.hogs = tuple(hogs)
        self._running: list[RunningHog] = []
        with ExitStack() as opened:
            self.page = ControlPage()
            opened.callback(self.page.close)
            self.guardian = opened.enter_context(Guardian())
            self.slices: Sequence[SmSlice] = ()
            if victim_sms is not None:
                from runtime.contention.hogs.gpu_hogs import cut  # noqa: PLC0415 - needs a GPU

                self.slices = opened.enter_context(cut(victim_sms))
            place = Place(self.page, self.guardian, self.slices[1] if self.slices else None)
            for k, hog in enumerate(hogs):
                self.page.tell(k, 0.0, 0.0)
                self._running.append(hog.start(place, k))
                opened.callback(self._running[-1].close)
            self._opened = opened.pop_all()
        self._mark = self._read()

    @property
    def process_ids(self) -> list[int]:
        """Of those that are processes."""
        return [one.process_id for one in self._running if one.process_id is not None]

    def tell(self, budgets: Sequence[tuple[float, float]]) -> None:
        """What each may use from now on: while the lock is free and while it is held, MB/s."""
        for k, (free, locked) in enumerate(budgets):
            self.page.tell(k, free, locked)
        time.sleep(_UNDER_WAY_S)
        self._mark = self._read()

    def park(self) -> None:
        """They move nothing, and sleep."""
        self.tell([(0.0, 0.0)] * len(self.hogs))

    def gb_per_s(self) -> list[float]:
        """What each achieved since it was asked or told last; a GB has 10 ** 9 bytes.

        Raises:
          RuntimeError: if one has ended, and what was measured means nothing.
        """
        for hog, one in zip(self.hogs, self._running, strict=True):
            if one.fault is not None:
                raise RuntimeError(f"a {hog.name} hog ended while it was needed: {one.fault}")
        before, self._mark = self._mark, self._read()
        taken_s = self._mark[0] - before[0]
        pairs = zip(before[1], self._mark[1], strict=True)
        return [(now - then) / taken_s / GB for then, now in pairs]

    def close(self) -> None:
        """Ends them."""
        self._opened.close()

    def _read(self) -> tuple[float, list[int]]:
        return time.perf_counter(), [self.page.moved(k) for k in range(len(self.hogs))]
