"""Undoes changes to other processes and to the system if the measuring process dies.

It runs as a separate process, by path and without packages. It reads one line of JSON per registered
action, and another to unregister it. When its standard input ends, which happens however the
measuring process ends (kill -9 included), it performs the remaining actions, latest first.

    {"key": 3, "undo": ["continue", 4711]}       {"key": 3}

Actions: `kill` or `continue` a process; `write` a text to a file; `rmdir` a folder once it is empty.
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
    """Read actions until standard input ends, then perform the remaining ones."""
    for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(one, signal.SIG_IGN)
    registered: dict[int, tuple[Callable[[], object], Callable[[], object]]] = {}
    for line in sys.stdin:
        with suppress(json.JSONDecodeError):  # a line cut off by the death of the other process
            message = json.loads(line)
            if "undo" in message:
                registered[message["key"]] = _action(*message["undo"])
            elif message["key"] in registered:
                _, discard = registered.pop(message["key"])
                discard()
    for undo, _ in reversed(registered.values()):
        with suppress(OSError):
            undo()


def _action(action: str, *arguments: Any) -> tuple[Callable[[], object], Callable[[], object]]:
    """Return a function that performs the action, and one that releases its resources."""
    if action in {"kill", "continue"}:
        return _signalling(arguments[0], signal.SIGKILL if action == "kill" else signal.SIGCONT)
    if action == "write":
        return (lambda: Path(arguments[0]).write_text(arguments[1], encoding="ascii")), _nothing
    if action == "rmdir":
        return (lambda: _remove(Path(arguments[0]))), _nothing
    raise ValueError(action)


def _signalling(
    process: int, number: signal.Signals
) -> tuple[Callable[[], object], Callable[[], object]]:
    """Signal a process through a pidfd where available, because process ids are reused."""
    try:
        descriptor = os.pidfd_open(process)
    except ProcessLookupError:  # it has ended; its id may soon be reused
        return _nothing, _nothing
    except (AttributeError, OSError):
        return (lambda: os.kill(process, number)), _nothing
    return (lambda: signal.pidfd_send_signal(descriptor, number)), lambda: os.close(descriptor)


def _nothing() -> None:
    return None


def _remove(folder: Path) -> None:
    until_s = time.monotonic() + _PATIENCE_S
    while folder.exists() and time.monotonic() < until_s:
        with suppress(OSError):  # its processes have not ended yet
            folder.rmdir()
        time.sleep(0.01)


if __name__ == "__main__":
    main()
