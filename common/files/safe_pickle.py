"""Safe reading of pickles from untrusted sources: plain containers and numbers only.

A pickle is a program. Here it can use the globals that the caller permits, and no other. NumPy's own
are never among them, because they trust the memory layout that they are given: the caller gives safe
implementations in their place. A hostile file can make reading fail, or exhaust memory as far as its
size allows, but it cannot run code.
"""

from __future__ import annotations

import io
import pickle
import pickletools
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, final

from common.types.errors import UserError


class ForbiddenError(Exception):
    """The pickle asked for a global that is not permitted; the message names it."""


def load(
    path: PurePath,
    content: bytes,
    permitted: Mapping[tuple[str, str], Any],
    encoding: str = "ASCII",
) -> object:
    """Load the object of a pickle.

    Args:
      path: file that it came from, for messages.
      content: the pickle.
      permitted: replacement of each permitted global, by (module, name).
      encoding: of the strings of Python 2, `bytes` to leave them as they are.

    Raises:
      UserError: if it is corrupt, or asks for any other global.
    """
    try:
        _require_small_memo(content)
        return _PlainUnpickler(io.BytesIO(content), permitted, encoding).load()
    except ForbiddenError as error:
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


@final
class _PlainUnpickler(pickle.Unpickler):
    def __init__(
        self, file: io.BytesIO, permitted: Mapping[tuple[str, str], Any], encoding: str
    ) -> None:
        super().__init__(file, encoding=encoding)
        self._permitted = permitted

    def find_class(self, module: str, name: str) -> Any:
        """Return a permitted global; refuse any other."""
        if (module, name) not in self._permitted:
            raise ForbiddenError(f"{module}.{name}")
        return self._permitted[module, name]
