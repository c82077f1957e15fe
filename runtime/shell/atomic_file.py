"""Files that are whole or absent: written beside their place, then moved into it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write that takes the place of `path` when the block ends without an error.

    Makes the folder if need be. After an error nothing is left behind and `path` is as it was.

    Raises:
      OSError: if it cannot be written; always with a file name in it.
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


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Give an error of writing the file's name; a full disk is reported without one."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def write_whole(path: Path, text: str) -> None:
    """Replace a text file; make its folder if need be.

    Raises:
      OSError: if it cannot be written; the file is as it was.
    """
    with replacing(path) as file:
        file.write(text.encode())
