"""Ctrl-C, SIGTERM and SIGHUP between steps, not in the middle of one.

Raised anywhere, it can leave a lock of a writer's thread held for ever, or be swallowed by an import.

A worker process ends with the process which started it (`end_with`), even if that was killed.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Thread
from types import FrameType
from typing import final

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def heeded() -> list[signal.Signals]:
    """Signals that end this process; `nohup` has it ignore SIGHUP."""
    return [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]


@contextmanager
def unheard() -> Iterator[None]:
    """Ignore further signals, such as those of an impatient Ctrl-C, while the last line is written."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.SIG_IGN) for number in heeded()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@final
class Interruption:
    """While the block runs, Ctrl-C, SIGTERM or SIGHUP waits for `check`; a second one does not wait."""

    def __init__(self) -> None:
        self._asked = False

    def __enter__(self) -> Interruption:
        self._is_main = threading.current_thread() is threading.main_thread()
        if self._is_main:
            self._before = {number: signal.signal(number, self._ask) for number in heeded()}
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_main:
            for number, handler in self._before.items():
                signal.signal(number, handler)

    def check(self) -> None:
        """Raise KeyboardInterrupt if it was asked for."""
        if self._asked:
            raise KeyboardInterrupt

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        if self._asked:
            raise KeyboardInterrupt
        self._asked = True


_EVERY_S = 1.0


@cache
def end_with(parent: int) -> None:
    """End this process within about a second after its parent, which has this process id, has ended."""
    Thread(target=_watch, args=(parent,), daemon=True, name="end-with-parent").start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_EVERY_S)
    os._exit(1)
