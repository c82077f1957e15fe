"""Registers actions that a separate process performs if this one crashes."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import final

from common.types.closeable import Closeable

_PROGRAM = Path(__file__).with_name("cleanup_program.py")


@final
class CrashCleanup(Closeable):
    """Performs the registered actions when closed, or when this process dies.

    Use it in a `with` statement. Register an action before the change that it undoes.
    """

    def __init__(self) -> None:
        """Start the cleanup process, which depends on this one by a pipe only."""
        self._keys = count()
        self._process = subprocess.Popen(  # noqa: S603 - a program of our own
            [sys.executable, "-I", "-S", str(_PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C and a closed terminal do not reach it
            text=True,
        )

    @property
    def process_id(self) -> int:
        """Process id of the cleanup process."""
        return self._process.pid

    def register_kill(self, process: int) -> int:
        """Kill a process; returns the key for `unregister`."""
        return self._register("kill", process)

    def register_continue(self, process: int) -> int:
        """Send SIGCONT to a process that may be stopped; returns the key for `unregister`."""
        return self._register("continue", process)

    def register_write(self, path: Path, text: str) -> int:
        """Write a text to a kernel file; returns the key for `unregister`."""
        return self._register("write", str(path), text)

    def register_rmdir(self, folder: Path) -> int:
        """Remove an empty kernel folder; returns the key for `unregister`."""
        return self._register("rmdir", str(folder))

    def unregister(self, key: int) -> None:
        """Drop an action that is no longer needed."""
        self._send({"key": key})

    def close(self) -> None:
        """Perform the actions that are still registered, and wait for the end of the process."""
        with suppress(BrokenPipeError):
            self._process.communicate()

    def _register(self, *undo: str | int) -> int:
        key = next(self._keys)
        self._send({"key": key, "undo": undo})
        return key

    def _send(self, message: dict[str, object]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise OSError(
                "the process that cleans up after a crash has ended; start the command again"
            ) from error
