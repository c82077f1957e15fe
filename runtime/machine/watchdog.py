"""A step that stands still: it is told where, what was measured is written, and the process ends.

A thread that waits for a GPU cannot be interrupted, not by Ctrl-C either; if the GPU does not answer,
there is no other end.
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
"""Without a sign: many times what an inference or the start of all hogs takes."""

STOOD_STILL = 3
"""Exit status."""

_TO_WRITE_S = 15.0
_STDERR = 2


@final
class Pulse:
    """Who works says so now and then."""

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        """Alive.

        Args:
          patience_s: for which it may be silent.
        """
        self.patience_s = patience_s
        self._last_s = time.monotonic()

    def beat(self) -> None:
        """A sign of life; it costs 0.1 us."""
        self._last_s = time.monotonic()

    @property
    def silent_s(self) -> float:
        """Since the last."""
        return time.monotonic() - self._last_s


@contextmanager
def ends_without(pulse: Pulse | None, give_up: Callable[[], object]) -> Iterator[None]:
    """Ends the process if what runs in here falls silent.

    Args:
      pulse: None of who gives no signs, and is left alone.
      give_up: called before the end, to write what there is; it has 15 s.
    """
    if pulse is None:
        yield
        return
    over = Event()
    pulse.beat()
    watch = Thread(target=_watch, args=(pulse, over, give_up), daemon=True, name="pulse")
    watch.start()
    try:
        yield
    finally:
        over.set()


def _watch(pulse: Pulse, over: Event, give_up: Callable[[], object]) -> None:
    while not over.wait(max(0.01, pulse.patience_s - pulse.silent_s)):
        if pulse.silent_s < pulse.patience_s:
            continue
        try:
            # to end all the same if `give_up` waits for the thread that stands still
            faulthandler.dump_traceback_later(_TO_WRITE_S, exit=True, file=_STDERR)
            give_up()
            faulthandler.dump_traceback(file=_STDERR)
        finally:
            os._exit(STOOD_STILL)
