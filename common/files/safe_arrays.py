"""Reading of NumPy archives that others wrote: no objects, and no more memory than is there to fill."""

from __future__ import annotations

import io
import math
import struct
import zipfile
import zlib
from pathlib import Path
from tokenize import TokenError

from numpy import ndarray
from numpy.lib import format as npy

from common.files.safe_file import opened, read_bytes

_LARGEST = 2**30  # bytes that a smaller file may unpack to
_CORRUPT = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, OverflowError)
_FOREIGN = (
    NotImplementedError, RuntimeError, SyntaxError, TypeError, UnicodeError, KeyError, MemoryError, TokenError,
)  # fmt: skip
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def load_arrays(path: Path) -> dict[str, ndarray]:
    """The arrays of an `.npz` file, by name.

    Raises:
      UserError: if it is no regular file.
      OSError: if it cannot be read.
      ValueError: if it is no such file, holds objects, or claims more bytes than it has.
    """
    with opened(path) as file:
        size = path.stat().st_size
        try:
            with zipfile.ZipFile(file) as archive:
                members = archive.infolist()
                if sum(one.file_size for one in members) > max(_LARGEST, 2 * size):
                    raise ValueError("it unpacks to more bytes than such a file needs")
                return {
                    one.filename.removesuffix(".npy"): _array(archive.read(one)) for one in members
                }
        except (*_CORRUPT, *_FOREIGN) as error:
            raise ValueError(f"it is no archive of arrays: {error}") from error


def load_array(path: Path) -> ndarray:
    """The array of an `.npy` file.

    Raises:
      UserError: if it is no regular file, or larger than a gigabyte.
      OSError: if it cannot be read.
      ValueError: if it is no such file, holds objects, or claims more bytes than it has.
    """
    try:
        return _array(read_bytes(path, _LARGEST))
    except (*_CORRUPT, *_FOREIGN) as error:
        raise ValueError(f"it is no array: {error}") from error


def _array(content: bytes) -> ndarray:
    file = io.BytesIO(content)
    read_header = _HEADERS.get(npy.read_magic(file))
    if read_header is None:
        raise ValueError("an array has a header of another version")
    shape, _, dtype = read_header(file)
    if min(shape, default=0) < 0 or math.prod(shape) * max(1, dtype.itemsize) > len(content):
        raise ValueError(f"an array claims to have the shape {shape}, but the file is shorter")
    file.seek(0)
    found: ndarray = npy.read_array(file, allow_pickle=False)
    return found
