"""A lock on a file that one process at a time can hold; a killed process loses it."""

from __future__ import annotations

import errno
import fcntl
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from edgenas_core.types.errors import UserError

_NO_LOCKS = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP}
"""Errors of file systems without locks: Lustre without `-o flock`, NFS without lockd, some of FUSE."""


def is_held(file: Path) -> bool:
    """Whether a process holds the lock of a file; False where it cannot be read."""
    try:
        with file.open("rb") as opened:
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


@contextmanager
def held(file: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold the lock of an existing file while the block runs; with `wait`, wait for it first.

    On a file system without locks the block runs without one, after a warning.

    Raises:
      UserError: if another process holds it, and `wait` is False.
    """
    with file.open("r+b") as opened:  # NFS locks exclusively only what is open for writing
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError as error:
            raise UserError(
                f"{file.parent} is being written by another process; stop it or let it end"
            ) from error
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            sys.stderr.write(
                f"warning: the file system of {file.parent} has no locks ({error.strerror}): write to this folder "
                f"from one process at a time, or name a folder on another file system\n"
            )
        yield
