"""Our side of the guardian, who undoes what this process can no longer undo."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import final

from runtime.shell.closeable import Closes

_PROGRAM = Path(__file__).with_name("guardian.py")


@final
class Guardian(Closes):
    """Is told what to undo before it is done. A context manager."""

    def __init__(self) -> None:
        """Starts its process, which needs nothing of this one but the pipe."""
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
        """Its own."""
        return self._process.pid

    def kill_later(self, process: int) -> int:
        """A process of ours must not outlive us."""
        return self._tell("kill", process)

    def continue_later(self, process: int) -> int:
        """A process that may be found stopped is to go on."""
        return self._tell("continue", process)

    def write_later(self, path: Path, text: str) -> int:
        """A file of the kernel's gets this text, which mends what another text did."""
        return self._tell("write", str(path), text)

    def remove_later(self, folder: Path) -> int:
        """A folder of the kernel's is to go."""
        return self._tell("rmdir", str(folder))

    def forget(self, key: int) -> None:
        """What was told under this key is undone already."""
        self._send({"key": key})

    def close(self) -> None:
        """Lets it undo what it was not told to forget, and waits for that."""
        with suppress(BrokenPipeError):
            self._process.communicate()

    def _tell(self, *undo: str | int) -> int:
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
                "the process that undoes what a crash leaves behind has ended; start anew"
            ) from error
