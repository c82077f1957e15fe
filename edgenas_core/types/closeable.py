"""Base class of resources that are used in `with` statements."""

from __future__ import annotations

from abc import abstractmethod
from typing import Protocol, TypeVar

_Opened = TypeVar("_Opened")


class Closeable(Protocol):
    """Base class for resources used in `with` statements; `close` is called at the end."""

    @abstractmethod
    def close(self) -> object:
        """Release the resource."""

    def __enter__(self: _Opened) -> _Opened:  # noqa: PYI019 - `Self` is of Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
