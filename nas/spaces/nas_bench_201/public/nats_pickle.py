"""Pickles of NATS-Bench's archive (protocol 4, written with NumPy 1, bz2-compressed), read safely.

They may use three globals: an ordered dictionary, NumPy's dtype and NumPy's scalar. The last two are
replaced by safe implementations. A NumPy scalar becomes a plain Python number.
"""

from __future__ import annotations

import bz2
import struct
from collections import OrderedDict
from pathlib import Path
from typing import final

from common.files import safe_pickle
from common.files.safe_pickle import ForbiddenError
from common.types.errors import UserError

MOST_BYTES = 32 * 2**20
"""Limit on one file, decompressed. The archive's largest, `meta`, has 1.4 MB; a cell has 0.3 MB."""

_NUMBERS = {"f8": "<d", "f4": "<f", "i8": "<q", "i4": "<i"}  # NumPy's name -> struct's


def load_bz2(path: Path, most_bytes: int = MOST_BYTES) -> object:
    """Load the object of a bz2-compressed pickle.

    Raises:
      UserError: if the file cannot be read, is corrupt, is larger than `most_bytes`, or asks
        for any other global.
    """
    return safe_pickle.load(path, _decompress(path, most_bytes), _PERMITTED)


def _decompress(path: Path, most_bytes: int) -> bytes:
    decompressor = bz2.BZ2Decompressor()
    try:
        content = decompressor.decompress(path.read_bytes(), most_bytes + 1)
    except OSError as error:  # bz2 reports bad bytes as one, without a strerror
        reason = error.strerror or "it is damaged, or not a bz2 file"
        raise UserError(f"cannot read {path}: {reason}") from error
    if len(content) > most_bytes:
        raise UserError(
            f"{path} decompresses to more than {most_bytes:,} bytes, so it is not a file of the "
            f"archive; download it again"
        )
    if not decompressor.eof:
        raise UserError(f"{path} is truncated; download it again")
    return content


@final
class _Dtype:
    """Replacement of numpy.dtype that accepts four little-endian number types only."""

    __slots__ = ("code",)

    def __init__(self, code: str, align: object, copy: object) -> None:
        if code not in _NUMBERS or align not in {0, 1} or copy not in {0, 1}:
            raise ForbiddenError(f"a NumPy dtype {code!r}")
        self.code = code

    def __setstate__(self, state: object) -> None:
        """Accept only the state of a plain little-endian number."""
        if state != (3, "<", None, None, None, -1, -1, 0):
            raise ForbiddenError(f"a NumPy dtype with the state {state!r}")


def _scalar(dtype: _Dtype, content: bytes) -> float | int:
    number: float | int
    (number,) = struct.unpack(_NUMBERS[dtype.code], content)
    return number


_PERMITTED = {
    ("collections", "OrderedDict"): OrderedDict,
    ("numpy", "dtype"): _Dtype,
    ("numpy.core.multiarray", "scalar"): _scalar,
}
