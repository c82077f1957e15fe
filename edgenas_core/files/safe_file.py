"""Reading of files that others wrote: regular files, no more bytes than a limit, arrays without objects."""

from __future__ import annotations

import codecs
import io
import math
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from numpy import ndarray
from numpy.lib import format as npy

from edgenas_core.types.errors import UserError

LARGEST_TEXT = 2**26
"""Bytes of a text or table that is read whole."""

_LARGEST_ARRAYS = 2**30  # bytes that a smaller file of arrays may unpack to
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


def read_text(path: Path, most: int = LARGEST_TEXT) -> str:
    """Text of a regular file of at most so many bytes, in UTF-8, or in UTF-16 with a byte-order mark.

    Raises:
      UserError: if it is larger, another kind of file, or in another encoding.
      OSError: if it cannot be read.
    """
    try:
        return decoded(read_bytes(path, most))
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is no text in UTF-8 or UTF-16: {error.reason}") from error


def decoded(content: bytes) -> str:
    """Text in UTF-8, or in UTF-16 with a byte-order mark; the mark is left out.

    Raises:
      UnicodeDecodeError: if it is in another encoding.
    """
    is_utf16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return content.decode("utf-16" if is_utf16 else "utf-8-sig")


def load_arrays(path: Path) -> dict[str, ndarray]:
    """The arrays of an `.npz` file, by name.

    Raises:
      UserError: if it is no regular file.
      OSError: if it cannot be opened.
      ValueError: if it is no such file, holds objects, or claims more bytes than it has.
    """
    with opened(path) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                members = _bounded(archive, path.stat().st_size)
                return {name.removesuffix(".npy"): _array(archive.read(name)) for name in members}
        except Exception as error:  # of NumPy, zipfile, and a seek beyond the file
            raise ValueError(f"it is no archive of arrays: {error}") from error


def _bounded(archive: zipfile.ZipFile, size: int) -> list[str]:
    """Names of the members of an archive of this size, if they unpack to few bytes."""
    if sum(member.file_size for member in archive.infolist()) > max(_LARGEST_ARRAYS, 2 * size):
        raise ValueError("it unpacks to more bytes than such a file needs")
    return archive.namelist()


def load_array(path: Path) -> ndarray:
    """The array of an `.npy` file.

    Raises:
      UserError: if it is no regular file, or larger than a gigabyte.
      OSError: if it cannot be read.
      ValueError: if it is no such file, holds objects, or claims more bytes than it has.
    """
    content = read_bytes(path, _LARGEST_ARRAYS)
    try:
        return _array(content)
    except Exception as error:  # of any library that reads it
        raise ValueError(f"it is no array: {error}") from error


def _array(content: bytes) -> ndarray:
    """Read an array; NumPy would make room for what the header claims."""
    file = io.BytesIO(content)
    is_first = npy.read_magic(file) == (1, 0)
    shape, _, dtype = (npy.read_array_header_1_0 if is_first else npy.read_array_header_2_0)(file)
    if min(shape, default=0) < 0 or math.prod(shape) * max(1, dtype.itemsize) > len(content):
        raise ValueError(f"an array claims to have the shape {shape}, but the file is shorter")
    file.seek(0)
    array: ndarray = npy.read_array(file, allow_pickle=False)
    return array
