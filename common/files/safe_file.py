"""Reading of files that others wrote: regular files only, and no more bytes than a limit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from common.types.errors import UserError

LARGEST_TEXT = 2**26
"""Bytes of a text or table that is read whole."""

_PART = 2**20  # bytes read at once: a read allocates all that it asks for


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file for reading; a pipe or a device, which may have no end, is not opened.

    Raises:
      UserError: if it is another kind of file.
      OSError: if it cannot be opened.
    """
    if path.exists() and not path.is_file():
        raise UserError(f"{path} is not a regular file; a folder, pipe or device is not read")
    with path.open("rb") as file:
        yield file


def require_regular(path: Path) -> None:
    """Refuse what a library would open by its name, if it is no regular file.

    Raises:
      UserError: if it is another kind of file.
      OSError: if it cannot be opened.
    """
    with opened(path):
        pass


def read_bytes(path: Path, most: int = LARGEST_TEXT) -> bytes:
    """Content of a regular file of at most so many bytes.

    Raises:
      UserError: if it is larger, or another kind of file.
      OSError: if it cannot be read.
    """
    content = bytearray()
    with opened(path) as file:
        while len(content) <= most and (part := file.read(_PART)):
            content += part
    if len(content) > most:
        raise UserError(
            f"{path} is larger than {most:,} bytes, the most that is read of such a file"
        )
    return bytes(content)


def read_text(path: Path, most: int = LARGEST_TEXT, encoding: str = "utf-8") -> str:
    """Text of a regular file of at most so many bytes.

    Raises:
      UserError: if it is larger, another kind of file, or not of the encoding.
      OSError: if it cannot be read.
    """
    try:
        return read_bytes(path, most).decode(encoding)
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is no text in UTF-8: {error.reason}") from error
