"""Reading of NumPy's files that others wrote: no objects, and no more memory than they may fill."""

from __future__ import annotations

import io
import math
import zipfile
from pathlib import Path

from numpy import ndarray
from numpy.lib import format as npy

from common.files.safe_file import opened, read_bytes

_LARGEST = 2**30  # bytes that a smaller file may unpack to


def load_arrays(path: Path) -> dict[str, ndarray]:
    """The arrays of an `.npz` file, by name.

    Raises:
      UserError: if it is no regular file.
      OSError: if it cannot be read.
      ValueError: if it is no such file, holds objects, or claims more bytes than it has.
    """
    with opened(path) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                members = _bounded(archive, path.stat().st_size)
                return {name.removesuffix(".npy"): _array(archive.read(name)) for name in members}
        except OSError:
            raise
        except Exception as error:  # NumPy and zipfile raise a dozen kinds
            raise ValueError(f"it is no archive of arrays: {error}") from error


def _bounded(archive: zipfile.ZipFile, size: int) -> list[str]:
    """Names of the members of an archive of this size, if they unpack to few bytes."""
    if sum(member.file_size for member in archive.infolist()) > max(_LARGEST, 2 * size):
        raise ValueError("it unpacks to more bytes than such a file needs")
    return archive.namelist()


def load_array(path: Path) -> ndarray:
    """The array of an `.npy` file.

    Raises:
      UserError: if it is no regular file, or larger than a gigabyte.
      OSError: if it cannot be read.
      ValueError: if it is no such file, holds objects, or claims more bytes than it has.
    """
    content = read_bytes(path, _LARGEST)
    try:
        return _array(content)
    except Exception as error:  # as above
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
