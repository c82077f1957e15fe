"""Protocols of search spaces, and a base class for them.

Each consumer states what it needs in a protocol of its own (`controller.base.Choices`,
`latency.base.Space`); a search space satisfies all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import combinations_with_replacement
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, final, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from controller.base import Choices
from controller.rows import keys_of, rows_of
from edgenas_core.types.architectures import Enumerable
from edgenas_core.types.errors import UserError, not_one_of
from edgenas_core.types.task import Task
from latency.base import LatencyOracle, Space
from nas.spaces.microcontroller import split_ram, work_of

if TYPE_CHECKING:
    from torch import Tensor, nn

    from edgenas_core.page.parts import PagePart
    from nas.spaces.microcontroller import MicroGraph


@runtime_checkable
class SearchSpace(Choices, Space, Protocol):
    """Search space: architectures as rows of D choice indices, their networks, costs, texts and drawings.

    Rows may be more than can be listed. Positions may be conditional on others: the value of such a position
    does not matter while it is switched off.

    Optional attributes: `default_network` is the row that is trained where there are few images. `expected_loss`
    has, by task, the mean points of accuracy from the optimum of predicted latencies to the true one, with
    predicted accuracies and with those of a table.
    """

    @property
    def default_device(self) -> str | None:
        """Device of a search that names none; None: `device=` is required."""

    @property
    def default_task(self) -> str:
        """Name of the task of `dataset=auto`."""

    @property
    def positions(self) -> tuple[str, ...]:
        """Name of each position."""

    def options(self, position: int) -> tuple[str, ...]:
        """Names of the options of a position."""

    def describe(self, architecture: Int64[ndarray, "D"]) -> tuple[str, ...]:
        """Name of the option chosen at each position, `-` where a position is switched off."""

    def drawing(self, architecture: Int64[ndarray, "D"], title: str) -> PagePart:
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


@runtime_checkable
class Layered(SearchSpace, Protocol):
    """A space that can list the layers of its networks."""

    def layer_list(self, architecture: Int64[ndarray, "D"], task: Task) -> list[Layer]:
        """Layers from the image to the classes."""


@runtime_checkable
class OnMicrocontroller(Protocol):
    """Space that knows the memory of its networks on a microcontroller."""

    def memories(
        self, architectures: Int64[ndarray, "*n D"], task: Task
    ) -> Float64[ndarray, "*n 2"]:
        """RAM and flash of each network's int8 .tflite file, bytes."""

    def split_memories(
        self, architectures: Int64[ndarray, "*n D"], task: Task, fast: float
    ) -> Float64[ndarray, "*n 2"]:
        """RAM of each network in a fast memory of so many bytes, and in a slower one beside it."""


def searched_part(space: SearchSpace, oracle: LatencyOracle) -> SearchSpace:
    """Part of a space to search on a device: the part with known latencies, or the whole space.

    A space some of which may have no latency has a method `known_part(has_latency)`, which returns the space of the
    other architectures; `has_latency` maps rows `(n, D)` to n truths.
    """
    if oracle.instant and hasattr(space, "known_part"):
        part: SearchSpace = space.known_part(oracle.known)
        return part
    return space


def task_named(space: SearchSpace, name: str) -> Task:
    """The task of this name; `auto` is the space's default.

    Raises:
      UserError: if the space has no such task.
    """
    if name == "auto":
        name = space.default_task
    if name not in space.tasks:
        raise not_one_of("dataset", name, space.tasks, f"these are of space={space.name}")
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


_COUNTS = ("parameters", "flops")
_CONTROL_SAMPLES = 64  # networks that are counted to choose the reference network
_GRAPHS = 1000  # networks whose operations are remembered
_PAIRED = 12  # positions, of more no pairs are multiplied


class ChoiceSpace:
    """Base class that derives a search space from its choices, its tasks and its networks.

    A plug-in writes `name`, `choices`, `tasks` and `network`, and overrides what it knows better:
    `switched_on` where choices are conditional, `valid` where some combinations are no architecture,
    `count`, `features`, and `text` with `parse`.
    """

    name: str
    choices: Mapping[str, Sequence[Any]]  # options of each position, by its name
    tasks: Mapping[str, Task]  # the default first
    resources: Path | None = None
    default_device: str | None = None

    def network(self, architecture: Int64[ndarray, "D"], task: Task) -> nn.Module:
        """Build the untrained network."""
        raise NotImplementedError

    @cached_property
    def num_choices(self) -> tuple[int, ...]:
        """Number of options of each position."""
        return tuple(map(len, self.choices.values()))

    @cached_property
    def positions(self) -> tuple[str, ...]:
        """Name of each position."""
        return tuple(self.choices)

    @cached_property
    def default_task(self) -> str:
        """The first task."""
        return next(iter(self.tasks))

    def options(self, position: int) -> tuple[str, ...]:
        """Names of the options of a position."""
        return tuple(map(str, self.choices[self.positions[position]]))

    def switched_on(self, architectures: Int64[ndarray, "*n D"]) -> Bool[ndarray, "*n D"]:
        """Return True where a choice matters: everywhere."""
        return np.ones(np.shape(architectures), bool)

    def normal(self, architectures: Int64[ndarray, "*n D"]) -> Int64[ndarray, "*n D"]:
        """Set switched-off positions to 0, so that one architecture is one row."""
        if type(self).switched_on is ChoiceSpace.switched_on:
            return architectures
        return np.where(self.switched_on(architectures), architectures, 0)

    def canonical(self, architectures: Int64[ndarray, "*n D"]) -> Int64[ndarray, "*n D"]:
        """Return `normal` rows: no two of them are the same network."""
        return self.normal(architectures)

    def same_files(self, architectures: Int64[ndarray, "*n D"]) -> Int64[ndarray, "*n D"]:
        """Return `canonical` rows, or others, of which each is exported as its architecture is."""
        return self.canonical(architectures)

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
        keys = dict.fromkeys(keys_of(self.normal(rows[self.valid(rows)])))
        keys.pop(self.normal(architecture).tobytes(), None)
        return rows_of(keys, len(self.num_choices))

    def chosen(self, architecture: Int64[ndarray, "D"]) -> dict[str, Any]:
        """The chosen option of each position, by its name; the first where it is switched off."""
        return {
            position: options[choice]
            for (position, options), choice in zip(
                self.choices.items(), self.normal(architecture), strict=True
            )
        }

    def describe(self, architecture: Int64[ndarray, "D"]) -> tuple[str, ...]:
        """Name of the option chosen at each position, `-` where a position is switched off."""
        on = self.switched_on(architecture)
        return tuple(
            str(option) if is_on else "-"
            for option, is_on in zip(self.chosen(architecture).values(), on, strict=True)
        )

    def text(self, architecture: Int64[ndarray, "D"]) -> str:
        """Write an architecture as `position=option` for each position that is switched on."""
        described = zip(self.positions, self.describe(architecture), strict=True)
        words = [f"{position}={option}" for position, option in described if option != "-"]
        return " ".join(word.replace(" ", "_") for word in words)

    def parse(self, text: str) -> Int64[ndarray, "D"]:
        """Read what `text` wrote.

        Raises:
          UserError: if the text is no architecture of this space.
        """
        words = dict.fromkeys(text.split())
        row = np.zeros(len(self.positions), np.int64)
        for number, position in enumerate(self.positions):
            for choice, option in enumerate(self.options(number)):
                if f"{position}={option}".replace(" ", "_") in words:
                    row[number] = choice
        if not self.valid(row) or sorted(self.text(row).split()) != sorted(words):
            form = self.text(self.sample(np.random.default_rng(0), 1)[0])
            raise UserError(
                f"{text!r} is not an architecture of space={self.name}, such as {form!r}"
            )
        return self.normal(row)

    def groups(self, architectures: Int64[ndarray, "n D"]) -> Int64[ndarray, "n"]:
        """The same number for equal networks."""
        _, group = np.unique(self.canonical(architectures), axis=0, return_inverse=True)
        return np.asarray(group.reshape(-1), np.int64)

    def count(self, architecture: Int64[ndarray, "D"], task: Task) -> tuple[float, float]:
        """Parameters and multiply-accumulates of the network; builds it, which takes 10 ms and more."""
        from nas.spaces.counted import count_costs  # noqa: PLC0415 - imports torch

        images = self.example_input(architecture, task, 1)
        return count_costs(partial(self.network, architecture, task), images)

    def costs(
        self, architectures: Int64[ndarray, "*n D"], task: Task
    ) -> Mapping[str, Float64[ndarray, "*n"]]:
        """`parameters` and `flops` (multiply-accumulates) by `count`, once for each network."""
        counts = self._once(self.count, self.canonical(architectures), task)
        return {name: counts[..., number] for number, name in enumerate(_COUNTS)}

    def micro_graphs(self, architecture: Int64[ndarray, "D"], task: Task) -> Sequence[MicroGraph]:
        """Operations of the network's int8 .tflite file, in parts that follow one another."""
        from nas.spaces.traced_operations import operations_of  # noqa: PLC0415 - imports torch

        images = self.example_input(architecture, task, 1)
        return [operations_of(partial(self.network, architecture, task), images).converted()]

    def memory(self, architecture: Int64[ndarray, "D"], task: Task) -> tuple[int, int]:
        """RAM and flash in bytes of the network's int8 .tflite file on a microcontroller."""
        (graph,) = self._graphs_once(architecture, task)
        return graph.memory()

    def micro_work(
        self, architecture: Int64[ndarray, "D"], task: Task, fast: float
    ) -> Mapping[str, float]:
        """What the network's operations amount to on a microcontroller with so much fast memory, bytes."""
        graphs = self._graphs_once(self.same_files(architecture), task)
        side = (graphs[0].image / task.channels) ** 0.5
        return work_of(graphs, fast) | {"side": side}

    def memories(
        self, architectures: Int64[ndarray, "*n D"], task: Task
    ) -> Float64[ndarray, "*n 2"]:
        """RAM and flash by `memory`, once for each of `same_files`."""
        return self._once(self.memory, self.same_files(architectures), task)

    def split_memories(
        self, architectures: Int64[ndarray, "*n D"], task: Task, fast: float
    ) -> Float64[ndarray, "*n 2"]:
        """RAM in a fast memory of so many bytes and in a slower one, once for each of `same_files`."""

        def count(row: Int64[ndarray, "D"], task: Task) -> tuple[int, int]:
            return split_ram(self._graphs_once(row, task), fast)

        count.__name__ = f"RAM split at {fast}"
        return self._once(count, self.same_files(architectures), task)

    def _graphs_once(self, architecture: Int64[ndarray, "D"], task: Task) -> Sequence[MicroGraph]:
        key = (architecture.tobytes(), task)
        if key not in self._graphs:
            if len(self._graphs) >= _GRAPHS:
                del self._graphs[next(iter(self._graphs))]  # the first one
            self._graphs[key] = self.micro_graphs(architecture, task)
        return self._graphs[key]

    @cached_property
    def _graphs(self) -> dict[tuple[bytes, Task], Sequence[MicroGraph]]:
        """Operations of the last rows, as RAM, flash and time are counted on them."""
        return {}

    def _once(
        self,
        count: Callable[[Int64[ndarray, "D"], Task], tuple[float, float]],
        rows: Int64[ndarray, "*n D"],
        task: Task,
    ) -> Float64[ndarray, "*n 2"]:
        counts = np.empty((*rows.shape[:-1], 2))
        for at in np.ndindex(rows.shape[:-1]):
            key = (count.__name__, rows[at].tobytes(), task)
            if key not in self._counted:
                self._counted[key] = count(rows[at], task)
            counts[at] = self._counted[key]
        return counts

    @cached_property
    def _counted(self) -> dict[tuple[str, bytes, Task], tuple[float, float]]:
        return {}

    @property
    def _counts_soon(self) -> bool:
        """Whether counting thousands of networks takes seconds."""
        return isinstance(self, Enumerable) or type(self).count is not ChoiceSpace.count

    @cached_property
    def feature_names(self) -> tuple[str, ...]:
        """Names of `features`: numbers where a subclass names none."""
        if type(self).features is not ChoiceSpace.features:
            (features,) = self.features(self.sample(np.random.default_rng(0), 1))
            return tuple(f"feature {number}" for number in range(len(features)))
        return (*(_COUNTS if self._counts_soon else ()), *_choice_names(self.choices))

    def features(self, architectures: Int64[ndarray, "*n D"]) -> Float64[ndarray, "*n F"]:
        """Choices and their products, and costs unless counting them takes long."""
        features = _choice_features(self.choices, architectures, self.switched_on(architectures))
        if not self._counts_soon:
            return features
        costs = self.costs(architectures, self.tasks[self.default_task])
        return np.concatenate([np.stack([costs[name] for name in _COUNTS], -1) / 1e6, features], -1)

    def example_input(
        self,
        architecture: Int64[ndarray, "D"],  # noqa: ARG002 - all networks take the same images
        task: Task,
        batch_size: int,
    ) -> Tensor:
        """Noise in the shape of the task's images, the same at every call."""
        import torch  # noqa: PLC0415 - takes seconds, not needed with a table

        shape = (batch_size, *task.input_shape)
        return torch.randn(shape, generator=torch.Generator().manual_seed(0))

    def control(self) -> Int64[ndarray, "D"]:
        """The costliest of a few samples."""
        return self._control

    @cached_property
    def _control(self) -> Int64[ndarray, "D"]:
        rows = np.unique(self.sample(np.random.default_rng(0), _CONTROL_SAMPLES), axis=0)
        flops = self.costs(rows, self.tasks[self.default_task])["flops"]
        return np.asarray(rows[flops.argmax()])

    def source(self, architecture: Int64[ndarray, "D"], task: Task) -> str:
        """Python source of the network, from a trace of it.

        Raises:
          UserError: if its `forward` cannot be traced.
        """
        from nas.spaces.source import traced_source  # noqa: PLC0415 - exports only

        return traced_source(self.network(architecture, task), self.name)

    def drawing(self, architecture: Int64[ndarray, "D"], title: str) -> PagePart:
        """A table of the choices."""
        from edgenas_core.page.parts import Table  # noqa: PLC0415 - pages only

        described = zip(self.positions, self.describe(architecture), strict=True)
        return Table(("choice", "option"), [row for row in described if row[1] != "-"], title)


def _choice_names(choices: Mapping[str, Sequence[Any]]) -> tuple[str, ...]:
    """Name of each feature: every option, and every pair of positions."""
    hot = [f"{position}={option}" for position, options in choices.items() for option in options]
    return (*hot, *(f"{list(choices)[a]} * {list(choices)[b]}" for a, b in _pairs(len(choices))))


def _choice_features(
    choices: Mapping[str, Sequence[Any]],
    architectures: Int64[ndarray, "*n D"],
    on: Bool[ndarray, "*n D"],
) -> Float64[ndarray, "*n F"]:
    """One-hot choices, and products of numbers; zeros where a position is switched off.

    An option that is no number stands as its place among the options of its position.
    """
    hot, numbers = [], []
    for position, options in enumerate(choices.values()):
        choice, is_on = architectures[..., position], on[..., position]
        hot.append((choice[..., None] == np.arange(len(options))) & is_on[..., None])
        places = range(1, len(options) + 1)
        is_numeric = all(isinstance(option, int | float) for option in options)
        values = np.array(options if is_numeric else places, float)
        numbers.append(np.where(is_on, values[choice] / (np.abs(values).max() or 1), 0))
    products = [(numbers[a] * numbers[b])[..., None] for a, b in _pairs(len(choices))]
    return np.concatenate([*hot, *products], axis=-1).astype(float)


def _pairs(positions: int) -> list[tuple[int, int]]:
    return list(combinations_with_replacement(range(positions), 2)) if positions <= _PAIRED else []
