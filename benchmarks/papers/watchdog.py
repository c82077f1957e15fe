"""A watchdog that ends the process when a measurement makes no progress.

It prints where the process hangs, and lets it write the results so far. A thread that waits for a GPU
cannot be interrupted, not even by Ctrl-C; if the GPU does not answer, the process can only exit.
"""

from __future__ import annotations

import faulthandler
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import final

PATIENCE_S = 120.0
"""Longest time without a beat: many times that of an inference or the start of all hogs."""

UNRESPONSIVE = 3
"""Exit status of a process that its watchdog ended."""

_TO_WRITE_S = 15.0
_STDERR = 2


@final
class Watchdog:
    """Records when the work made progress last."""

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self.patience_s = patience_s
        self._last_s = time.monotonic()

    def beat(self) -> None:
        """Record progress; costs 0.1 us."""
        self._last_s = time.monotonic()

    @property
    def silent_s(self) -> float:
        """Seconds since the last beat."""
        return time.monotonic() - self._last_s


@contextmanager
def exit_if_silent(watchdog: Watchdog | None, give_up: Callable[[], object]) -> Iterator[None]:
    """Exit the process if the block does not call `beat` for longer than the watchdog allows.

    Before the exit `give_up` has 15 s to write the results so far.
    """
    if watchdog is None:
        yield
        return
    over = Event()
    watchdog.beat()
    watch = Thread(target=_watch, args=(watchdog, over, give_up), daemon=True, name="watchdog")
    watch.start()
    try:
        yield
    finally:
        over.set()


def _watch(watchdog: Watchdog, over: Event, give_up: Callable[[], object]) -> None:
    while not over.wait(max(0.01, watchdog.patience_s - watchdog.silent_s)):
        if watchdog.silent_s < watchdog.patience_s:
            continue
        try:
            # exits even if `give_up` waits for the thread that hangs
            faulthandler.dump_traceback_later(_TO_WRITE_S, exit=True, file=_STDERR)
            give_up()
            faulthandler.dump_traceback(file=_STDERR)
        finally:
            os._exit(UNRESPONSIVE)
