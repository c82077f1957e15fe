"""D choices of K options: every architecture has a number, and neighbours one choice away."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from jaxtyping import Int64
from numpy import ndarray


@final
@dataclass(frozen=True)
class ChoiceSpace:
    """The architectures of a space, numbered in lexicographic order.

    Raises:
      ValueError: if there are more of them than 64 bits can number.
    """

    num_choices: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.size > np.iinfo(np.int64).max:
            raise ValueError(f"{self.size:.1e} architectures are too many to be numbered")

    @cached_property
    def size(self) -> int:
        """How many architectures there are."""
        return math.prod(self.num_choices)

    @cached_property
    def _strides(self) -> Int64[ndarray, "D"]:
        return np.array(
            [math.prod(self.num_choices[i + 1 :]) for i in range(len(self.num_choices))], np.int64
        )

    @cached_property
    def _options(self) -> tuple[Int64[ndarray, "options"], Int64[ndarray, "options"]]:
        """Position and choice of every option there is."""
        pairs = [(d, choice) for d, k in enumerate(self.num_choices) for choice in range(k)]
        positions, choices = np.array(pairs, np.int64).T
        return positions, choices

    def numbers(self, architectures: Int64[ndarray, "*n D"]) -> Int64[ndarray, "*n"]:
        """The number of each architecture."""
        found: Int64[ndarray, "*n"] = architectures @ self._strides
        return found

    def architectures(self, numbers: Int64[ndarray, "*n"]) -> Int64[ndarray, "*n D"]:
        """The architecture of each number."""
        choices: Int64[ndarray, "*n D"] = numbers[..., None] // self._strides
        choices %= np.array(self.num_choices)
        return choices

    @property
    def num_neighbours(self) -> int:
        """How many architectures differ from any one in exactly one choice."""
        return sum(self.num_choices) - len(self.num_choices)

    def neighbours(self, number: int) -> Int64[ndarray, "num_neighbours"]:
        """The numbers of the architectures that differ in exactly one choice."""
        positions, choices = self._options
        now = (number // self._strides % np.array(self.num_choices))[positions]
        found: Int64[ndarray, "num_neighbours"] = (
            number + ((choices - now) * self._strides[positions])[choices != now]
        )
        return found
