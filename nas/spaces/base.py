"""Protocols of search spaces, and a base class for them.

Each consumer states what it needs in a protocol of its own (`controller.base.Choices`,
`latency.base.Space`); a search space satisfies all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, final, runtime_checkable

import numpy as np
from jaxtyping import Bool, Int64
from numpy import ndarray

from common.types.architectures import Enumerable
from common.types.errors import UserError
from common.types.task import Task
from controller.base import Choices
from controller.rows import keys_of, rows_of
from latency.base import Space

if TYPE_CHECKING:
    from common.page.parts import Part


@runtime_checkable
class SearchSpace(Choices, Space, Protocol):
    """Architectures as rows of D choice indices, and what is known of each row.

    Rows may be more than can be listed. Positions may be conditional on others: what such a
    position holds while it is switched off does not matter.
    """

    default_task: str

    @property
    def positions(self) -> tuple[str, ...]:
        """Name of each position."""

    def options(self, position: int) -> tuple[str, ...]:
        """Names of the options of a position."""

    def describe(self, architecture: Int64[ndarray, "D"]) -> tuple[str, ...]:
        """Name of the option chosen at each position, `-` where a position is switched off."""

    def drawing(self, architecture: Int64[ndarray, "D"], title: str) -> Part:
        """Draw an architecture for a page."""

    def source(self, architecture: Int64[ndarray, "D"], task: Task) -> str:
        """Python source of a module that imports torch alone and defines the network as `Network()`.

        Its weights have the names of those of `network`.
        """


@final
@dataclass(frozen=True)
class Layer:
    """One layer of a network, or equal ones in a row, with the shape and the cost of the result."""

    name: str
    channels: int  # of the output
    side: int  # of the output, pixels
    parameters: int
    multiply_accumulates: int  # for one image
    block: tuple[int, str] | None = (
        None  # side of the network's image and key in look-ups of blocks
    )


@runtime_checkable
class Layered(SearchSpace, Protocol):
    """A space that can list the layers of its networks."""

    def layer_list(self, architecture: Int64[ndarray, "D"], task: Task) -> list[Layer]:
        """Layers from the image to the classes."""


def task_named(space: SearchSpace, name: str) -> Task:
    """The task of this name; `auto` is the space's default.

    Raises:
      UserError: if the space has no such task.
    """
    if name == "auto":
        name = space.default_task
    if name not in space.tasks:
        raise UserError(
            f"dataset={name} is none of space={space.name}, which has {', '.join(space.tasks)}"
        )
    return space.tasks[name]


def architecture_named(space: SearchSpace, text: str) -> Int64[ndarray, "D"]:
    """Architecture of a text, or of a number where the space has numbers.

    Raises:
      UserError: if the space has no such architecture.
    """
    if not (isinstance(space, Enumerable) and text.isascii() and text.isdigit()):
        return space.parse(text)
    if len(text) > 18 or int(text) >= space.size:
        raise UserError(f"arch={text[:40]} is not between 0 and {space.size - 1:,}")
    return space.architectures(np.array(int(text)))


class ChoiceSpace:
    """Base class that derives what follows from `num_choices`, `normal` and `valid`.

    A plug-in may inherit from it, and overrides what it knows better.
    """

    num_choices: tuple[int, ...]

    def normal(self, architectures: Int64[ndarray, "*n D"]) -> Int64[ndarray, "*n D"]:
        """Return the rows as they are: no position is ever switched off."""
        return architectures

    def canonical(self, architectures: Int64[ndarray, "*n D"]) -> Int64[ndarray, "*n D"]:
        """Return `normal` rows: no two of them are the same network."""
        return self.normal(architectures)

    def valid(self, architectures: Int64[ndarray, "*n D"]) -> Bool[ndarray, "*n"]:
        """Return True where every choice is one of its position's options."""
        inside = (architectures >= 0) & (architectures < np.array(self.num_choices))
        return np.asarray(inside.all(-1))

    def sample(self, rng: np.random.Generator, n: int) -> Int64[ndarray, "n D"]:
        """Draw each choice uniformly; rows that are not valid are drawn again."""
        rows = (rng.random((n, len(self.num_choices))) * self.num_choices).astype(np.int64)
        while (wrong := np.flatnonzero(~self.valid(rows))).size:
            again = rng.random((wrong.size, len(self.num_choices)))
            rows[wrong] = (again * self.num_choices).astype(np.int64)
        return self.normal(rows)

    def neighbours(self, architecture: Int64[ndarray, "D"]) -> Int64[ndarray, "n D"]:
        """Valid architectures that differ from this one in exactly one choice, without repeats."""
        positions = np.repeat(np.arange(len(self.num_choices)), self.num_choices)
        rows = np.repeat(architecture[None], len(positions), axis=0)
        rows[np.arange(len(rows)), positions] = np.concatenate(
            list(map(np.arange, self.num_choices))
        )
        found = dict.fromkeys(keys_of(self.normal(rows[self.valid(rows)])))
        found.pop(self.normal(architecture).tobytes(), None)
        return rows_of(found, len(self.num_choices))
