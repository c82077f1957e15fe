"""Undoes what a measurement did to other processes, should it die before it could.

Run as a process of its own, by path and without packages: it reads a line of JSON for each thing
that will have to be undone, and another once it no longer has to. When its standard input ends, as
it does however the measuring process ends (kill -9 too), it undoes what is left, the latest first.

    {"key": 3, "undo": ["continue", 4711]}       {"key": 3}

It can: `kill` and `continue` a process; `write` a text to a file; `rmdir` a folder once it is empty.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

_PATIENCE_S = 2.0


def main() -> None:
    """Watches until there is nobody left."""
    for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(one, signal.SIG_IGN)
    left: dict[int, tuple[Callable[[], object], Callable[[], object]]] = {}
    for line in sys.stdin:
        with suppress(json.JSONDecodeError):  # of a line that was cut off by a death
            told = json.loads(line)
            if "undo" in told:
                left[told["key"]] = _undoing(*told["undo"])
            elif told["key"] in left:
                _, forget = left.pop(told["key"])
                forget()
    for undo, _ in reversed(left.values()):
        with suppress(OSError):
            undo()


def _undoing(action: str, *what: Any) -> tuple[Callable[[], object], Callable[[], object]]:
    """How to undo it, and how to let go of what that needs."""
    if action in {"kill", "continue"}:
        return _signalling(what[0], signal.SIGKILL if action == "kill" else signal.SIGCONT)
    if action == "write":
        return (lambda: Path(what[0]).write_text(what[1], encoding="ascii")), _nothing
    if action == "rmdir":
        return (lambda: _remove(Path(what[0]))), _nothing
    raise ValueError(action)


def _signalling(
    process: int, number: signal.Signals
) -> tuple[Callable[[], object], Callable[[], object]]:
    """By a descriptor where the system has them: numbers of processes are used again."""
    try:
        descriptor = os.pidfd_open(process)
    except ProcessLookupError:  # it has ended; its number may soon be another's
        return _nothing, _nothing
    except (AttributeError, OSError):
        return (lambda: os.kill(process, number)), _nothing
    return (lambda: signal.pidfd_send_signal(descriptor, number)), lambda: os.close(descriptor)


def _nothing() -> None:
    return None


def _remove(folder: Path) -> None:
    until_s = time.monotonic() + _PATIENCE_S
    while folder.exists() and time.monotonic() < until_s:
        with suppress(OSError):  # its processes are still on their way out
            folder.rmdir()
        time.sleep(0.01)


if __name__ == "__main__":
    main()
