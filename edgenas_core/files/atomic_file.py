"""Atomic writes: a temporary file in the same folder that replaces the target when complete."""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO
from uuid import uuid4

from edgenas_core.types.errors import UserError

_TEMPORARY = re.compile(r"\.[0-9a-f]{8}\.tmp$")


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces `path` when the block ends without an error.

    The folder is created if necessary. After an error the temporary file is removed and `path` is
    unchanged.

    Raises:
      OSError: if it cannot be written; its `filename` is always set.
    """
    temporary = path.with_name(f"{path.name}.{uuid4().hex[:8]}.tmp")
    with naming(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("wb") as file:
                yield file
            temporary.replace(path)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise


def remove_unfinished(folder: Path, name: str = "") -> None:
    """Remove temporary files and folders that a killed process has left; for who holds the folder's lock.

    With a name, only those of files in the folder itself whose names begin with it.
    """
    for path in list(folder.glob("*.tmp") if name else folder.rglob("*.tmp")):
        if not (path.name.startswith(name) and _TEMPORARY.search(path.name)):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def require_writable(folder: Path) -> None:
    """Make a folder, and try to write there, before work begins whose results would be lost.

    Raises:
      OSError: if that fails; its `filename` is set.
    """
    with naming(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Set the file name of an `OSError` that has none, as when the disk is full.

    Raises:
      OSError: also for a library's own error that says that the disk is full.
    """
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise
    except UserError:
        raise
    except Exception as error:
        for code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            if os.strerror(code) in str(error):
                raise OSError(code, os.strerror(code), str(path)) from error
        raise


def write_whole(path: Path, text: str) -> None:
    """Replace a text file; its folder is created if necessary.

    Raises:
      OSError: if it cannot be written; the file is unchanged.
    """
    with replacing(path) as file:
        file.write(text.encode())
