"""What a search space provides.

Each consumer states what it needs in a protocol of its own (`controller.base.Choices`,
`latency.base.Space`); a search space satisfies all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from runtime.network.task import Task
from runtime.shell.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor, nn

    from runtime.page.parts import Part


@runtime_checkable
class SearchSpace(Protocol):
    """Architectures as rows of D choice indices, and what is known of each row.

    Rows may be more than can be listed. Positions may be conditional on others: what such a
    position holds while it is switched off does not matter.
    """

    name: str
    num_choices: tuple[int, ...]  # number of options at each of the D positions
    tasks: Mapping[str, Task]  # what networks can be trained for, by name
    default_task: str
    feature_names: tuple[str, ...]
    resources: Path | None  # folder of the tables and models that come with the space, or None

    def __hash__(self) -> int:
        """Equal spaces are one space: what is computed for all of it is cached by the space."""

    def normal(self, architectures: Int64[ndarray, "*n D"]) -> Int64[ndarray, "*n D"]:
        """Set switched-off positions to 0, so that one architecture is one row."""

    def canonical(self, architectures: Int64[ndarray, "*n D"]) -> Int64[ndarray, "*n D"]:
        """Map architectures that are the same network to one row of them."""

    def valid(self, architectures: Int64[ndarray, "*n D"]) -> Bool[ndarray, "*n"]:
        """Return True where a row is an architecture of the space."""

    def sample(self, rng: np.random.Generator, n: int) -> Int64[ndarray, "n D"]:
        """Draw valid architectures uniformly over the options of each position."""

    def neighbours(self, architecture: Int64[ndarray, "D"]) -> Int64[ndarray, "n D"]:
        """Valid architectures that differ from this one in exactly one choice."""

    def text(self, architecture: Int64[ndarray, "D"]) -> str:
        """Write an architecture as one line; `parse` reads it."""

    def parse(self, text: str) -> Int64[ndarray, "D"]:
        """Read what `text` wrote.

        Raises:
          UserError: if the text is no architecture of this space; it says what one looks like.
        """

    def features(self, architectures: Int64[ndarray, "*n D"]) -> Float64[ndarray, "*n F"]:
        """Numbers that latency is roughly linear in, named by `feature_names`."""

    def groups(self, architectures: Int64[ndarray, "n D"]) -> Int64[ndarray, "n"]:
        """Group number of each row; cross-validation holds out whole groups."""

    def costs(
        self, architectures: Int64[ndarray, "*n D"], task: Task
    ) -> Mapping[str, Float64[ndarray, "*n"]]:
        """`parameters`, `flops` (multiply-accumulates) and `weight_bytes` (32 bits a weight)."""

    def network(self, architecture: Int64[ndarray, "D"], task: Task) -> nn.Module:
        """Build the untrained network."""

    def example_input(
        self, architecture: Int64[ndarray, "D"], task: Task, batch_size: int
    ) -> Tensor:
        """Noise in the shape of the network's images."""

    def control(self) -> Int64[ndarray, "D"]:
        """The architecture that is timed throughout a measurement, as its control."""

    def source(self, architecture: Int64[ndarray, "D"], task: Task) -> str:
        """Python source of a module that imports torch alone and defines the network as `Network()`.

        Its weights have the names of those of `network`.
        """

    def drawing(self, architecture: Int64[ndarray, "D"], title: str) -> Part:
        """Draw an architecture for a page."""

    def describe(self, architecture: Int64[ndarray, "D"]) -> tuple[str, ...]:
        """Name of the option chosen at each position, `-` where a position is switched off."""

    @property
    def positions(self) -> tuple[str, ...]:
        """Name of each position."""

    def options(self, position: int) -> tuple[str, ...]:
        """Names of the options of a position."""


@runtime_checkable
class Enumerable(SearchSpace, Protocol):
    """A space small enough to list: the exact optimum is known where answers are instant.

    `size` rows are numbered from 0; the numbers are the benchmark's own where it has any.
    """

    size: int

    def architectures(self, numbers: Int64[ndarray, "*n"]) -> Int64[ndarray, "*n D"]:
        """Architecture of each number."""

    def numbers(self, architectures: Int64[ndarray, "*n D"]) -> Int64[ndarray, "*n"]:
        """Number of each architecture.

        Raises:
          IndexError: if a choice lies outside the space.
        """


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


def everything(space: Enumerable) -> Int64[ndarray, "size D"]:
    """All architectures of a space, in the order of their numbers."""
    return space.architectures(np.arange(space.size))


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
        steps = [
            (position, choice)
            for position, options in enumerate(self.num_choices)
            for choice in range(options)
            if choice != architecture[position]
        ]
        rows = np.repeat(architecture[None], len(steps), axis=0)
        for row, (position, choice) in zip(rows, steps, strict=True):
            row[position] = choice
        rows = self.normal(rows[self.valid(rows)])
        rows = rows[(rows != self.normal(architecture)).any(-1)]
        _, first = np.unique(rows, axis=0, return_index=True)
        found: Int64[ndarray, "n D"] = rows[np.sort(first)]
        return found
