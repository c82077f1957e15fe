"""Safe reading of pickles from untrusted sources: plain containers and numbers only.

A pickle is a program. Here it can use four globals: ordered dictionaries, NumPy's scalars and their
dtypes, and text as bytes, which are replaced by implementations that trust nothing they are given. A
hostile file can make reading fail, or exhaust memory as far as its size allows, but cannot run code.
"""

from __future__ import annotations

import io
import pickle
import pickletools
import struct
from collections import OrderedDict
from pathlib import PurePath
from typing import Any, final

from edgenas_core.types.errors import UserError


class _ForbiddenError(Exception):
    """The pickle asked for something that is not permitted; the message names it."""


def load(path: PurePath, content: bytes) -> object:
    """Load the object of a pickle; a NumPy scalar becomes a plain Python number.

    Args:
      path: file that it came from, for messages.
      content: the pickle.

    Raises:
      UserError: if it is corrupt, or asks for any other global.
    """
    try:
        _require_small_memo(content)
        return _PlainUnpickler(io.BytesIO(content)).load()
    except _ForbiddenError as error:
        raise UserError(
            f"{path} asks to load {error}, which no file of the archive does; none of its code was "
            f"run: delete it, and download it from the official source"
        ) from error
    except Exception as error:
        reason = type(error).__name__
        raise UserError(f"{path} is corrupt ({reason}); download it again") from error


def _require_small_memo(content: bytes) -> None:
    """Refuse a place in the memo, a list, that no sequence of places leads to; ValueError says so."""
    for number, (opcode, place, _) in enumerate(pickletools.genops(content)):
        if opcode.name in {"PUT", "LONG_BINPUT"} and not (place or 0) <= number:
            raise ValueError(f"it stores an object at place {place}")


_NUMBERS = {"f8": "<d", "f4": "<f", "i8": "<q", "i4": "<i"}  # NumPy's name -> struct's


@final
class _Dtype:
    """Replacement of numpy.dtype that accepts four little-endian number types only."""

    __slots__ = ("code",)

    def __init__(self, code: str, align: object, copy: object) -> None:
        if code not in _NUMBERS or align not in {0, 1} or copy not in {0, 1}:
            raise _ForbiddenError(f"a NumPy dtype {code!r}")
        self.code = code

    def __setstate__(self, state: object) -> None:
        """Accept only the state of a plain little-endian number."""
        if state != (3, "<", None, None, None, -1, -1, 0):
            raise _ForbiddenError(f"a NumPy dtype with the state {state!r}")


def _scalar(dtype: _Dtype, content: bytes) -> float | int:
    number: float | int
    (number,) = struct.unpack(_NUMBERS[dtype.code], content)
    return number


def _encode(text: str, encoding: str) -> bytes:
    """Replacement of codecs.encode, with which Python 3 writes bytes for Python 2."""
    if encoding != "latin1":
        raise _ForbiddenError(f"the encoding {encoding!r}")
    return text.encode("latin1")


_PERMITTED = {
    ("collections", "OrderedDict"): OrderedDict,
    ("numpy", "dtype"): _Dtype,
    ("numpy.core.multiarray", "scalar"): _scalar,
    ("_codecs", "encode"): _encode,
}


@final
class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Return a permitted global; refuse any other."""
        if (module, name) not in _PERMITTED:
            raise _ForbiddenError(f"{module}.{name}")
        return _PERMITTED[module, name]
