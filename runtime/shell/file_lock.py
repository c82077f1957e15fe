"""One process at a time writes what a file stands for; the system lets go after a kill."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runtime.shell.errors import UserError


@contextmanager
def held(file: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold a file that is there while the block runs; with `wait`, after whoever holds it now.

    Raises:
      UserError: if another process holds it, and it is not waited for.
    """
    with file.open("r+b") as opened:  # NFS locks exclusively only what is open for writing
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError as error:
            raise UserError(
                f"{file.parent} is being written by another process; stop it or let it end"
            ) from error
        yield
