"""Protocols of architectures as rows of D choice indices; every search space satisfies `Keys`."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from jaxtyping import Int64
from numpy import ndarray


@runtime_checkable
class Rows(Protocol):
    """Architectures as rows of D choice indices."""

    @property
    def num_choices(self) -> tuple[int, ...]:
        """Number of options at each position."""

    def normal(self, architectures: Int64[ndarray, "*n D"]) -> Int64[ndarray, "*n D"]:
        """Set switched-off positions to 0, so that one architecture is one row."""


@runtime_checkable
class Keys(Rows, Protocol):
    """Conversion of an architecture's text into a row of choice indices, and back."""

    name: str  # part of every cache key, table and device record

    def __hash__(self) -> int:
        """Equal spaces are one space."""

    def text(self, architecture: Int64[ndarray, "D"]) -> str:
        """Write an architecture as one line; `parse` reads it."""

    def parse(self, text: str) -> Int64[ndarray, "D"]:
        """Read what `text` wrote.

        Raises:
          UserError: if the text is no architecture of this space.
        """


@runtime_checkable
class Enumerable(Keys, Protocol):
    """Architectures few enough to be listed, numbered from 0 to `size` - 1."""

    @property
    def size(self) -> int:
        """Number of architectures."""

    def architectures(self, numbers: Int64[ndarray, "*n"]) -> Int64[ndarray, "*n D"]:
        """Architecture of each number."""

    def numbers(self, architectures: Int64[ndarray, "*n D"]) -> Int64[ndarray, "*n"]:
        """Number of each architecture.

        Raises:
          IndexError: if a choice lies outside the space.
        """
