"""Files that are whole or absent: written beside their place, then moved into it."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, BinaryIO
from uuid import uuid4

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


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
