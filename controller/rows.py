"""Architectures as rows of choice indices: their keys, their validity, their order."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import final

import numpy as np
from jaxtyping import Bool, Int64
from numpy import ndarray

from controller.base import Choices
from edgenas_core.types.architectures import Enumerable

_LISTABLE = 1_000_000  # architectures; in a larger space a random one is as good as new


def keys_of(architectures: Int64[ndarray, "n D"]) -> list[bytes]:
    """Dictionary key of each row; equal architectures have equal keys once they are `normal`."""
    width = architectures.shape[1] * architectures.itemsize
    joined = architectures.tobytes()
    return [joined[start : start + width] for start in range(0, len(joined), width)]


def rows_of(keys: Iterable[bytes], positions: int) -> Int64[ndarray, "n D"]:
    """Architectures that `keys_of` made these keys of."""
    return np.array(np.frombuffer(b"".join(keys), np.int64).reshape(-1, positions))


def all_valid(space: Choices) -> bool:
    """Return True if every combination of options is a distinct architecture of the space."""
    return isinstance(space, Enumerable) and space.size == math.prod(space.num_choices)


def switched_on(space: Choices, architectures: Int64[ndarray, "*n D"]) -> Bool[ndarray, "*n D"]:
    """True where another option would give another architecture."""
    every = np.arange(len(space.num_choices))
    other = np.repeat(architectures[..., None, :], len(every), axis=-2)
    other[..., every, every] = np.array(space.num_choices) - 1
    on: Bool[ndarray, "*n D"] = space.normal(other)[..., every, every] > 0
    return on


@final
class Listing:
    """All architectures of a space, numbered in the lexicographic order of their rows."""

    def __init__(self, space: Enumerable) -> None:
        self._space = space
        rows = space.architectures(np.arange(space.size))
        self._order = np.lexsort(rows.T[::-1])

    def __len__(self) -> int:
        return len(self._order)

    def architectures(self, numbers: Int64[ndarray, "*n"]) -> Int64[ndarray, "*n D"]:
        """Architecture of each number."""
        return self._space.architectures(self._order[numbers])


def listing(space: Choices) -> Listing | None:
    """List a space, or return None if it cannot be listed or is too large to be worth it."""
    if isinstance(space, Enumerable) and space.size <= _LISTABLE:
        return Listing(space)
    return None
