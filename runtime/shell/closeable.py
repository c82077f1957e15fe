"""What is to be used in a `with` statement, and is closed at its end, whatever happened in it."""

from __future__ import annotations

from abc import abstractmethod
from types import TracebackType
from typing import Protocol, TypeVar

_Opened = TypeVar("_Opened")


class Closes(Protocol):
    """Those that are one say so by inheriting from it; it gives them the two methods of `with`."""

    @abstractmethod
    def close(self) -> object:
        """Lets go of what was opened."""

    def __enter__(self: _Opened) -> _Opened:  # noqa: PYI019 - `Self` is of Python 3.11
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
