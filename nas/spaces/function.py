"""A search space of a function: choices by name, and a function that builds the network."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING, Any, final

import numpy as np
from jaxtyping import Bool, Int64
from numpy import ndarray

from edgenas_core.types.errors import UserError
from edgenas_core.types.task import Task
from nas.spaces.base import ChoiceSpace, SearchSpace

if TYPE_CHECKING:
    from torch import nn

_IMAGES = Task("images", 10, 32)
_LISTED = 1000  # combinations of options, up to which a space is listed and all networks counted


@final
@dataclass(frozen=True)
class Choice:
    """Options of one position, and when they matter."""

    options: tuple[Any, ...]
    when: Callable[..., bool] | None = None  # of choices before it, by their names
    is_first_written: bool = True  # in the texts of architectures


def choice(
    options: Iterable[Any],
    when: Callable[..., bool] | None = None,
    *,
    is_first_written: bool = True,
) -> Choice:
    """Options that matter only where `when` is true of earlier choices, its parameters' names.

    Where they do not matter, the function is given the first option. A choice that a space gains keeps
    the texts of its saved networks with `is_first_written=False`: they leave out the first option.
    """
    return Choice(tuple(options), when, is_first_written)


def space(
    build: Callable[..., nn.Module],
    /,
    *,
    name: str = "",
    tasks: Task | Iterable[Task] = _IMAGES,
    default_device: str | None = None,
    default_network: str | None = None,
    **choices: Iterable[Any] | Choice,
) -> FunctionSpace:
    """Make a search space of a function that builds its networks.

    Args:
      build: function `(task, **chosen)` that returns the untrained network of an option of each choice;
        it takes images (n, task.channels, task.image_side, task.image_side) and returns logits
        (n, task.num_classes).
      name: in files and on the command line; default: that of the function.
      tasks: that networks are trained for, the default first.
      default_device: where none is named.
      default_network: its text, `depth=2 width=16`; on few images, a search on a CPU trains this one
        unless another is better beyond chance.
      choices: options by name, or a `choice` of options that do not always matter.

    Raises:
      UserError: if there are no options, two are alike, or a condition names no earlier choice.
    """
    made = {
        key: part if isinstance(part, Choice) else choice(part) for key, part in choices.items()
    }
    name = name or build.__name__.replace("<lambda>", "own_space")
    every_task = (tasks,) if isinstance(tasks, Task) else tuple(tasks)
    combinations = math.prod(len(part.options) for part in made.values())
    kind = ListedFunctionSpace if combinations <= _LISTED else FunctionSpace
    return kind(build, name, every_task, made, default_device, default_network)


class FunctionSpace(ChoiceSpace):
    """Networks that a function builds, with choices that may depend on earlier ones."""

    def __init__(  # noqa: PLR0917 - called by `space` alone
        self,
        build: Callable[..., nn.Module],
        name: str,
        tasks: Sequence[Task],
        choices: Mapping[str, Choice],
        default_device: str | None,
        default_network: str | None,
    ) -> None:
        self.name, self.default_device = name, default_device
        self.tasks = {task.name: task for task in tasks}
        self.choices = {key: part.options for key, part in choices.items()}
        self._build = build
        self.gained_last = sum(
            1 for _ in takewhile(lambda part: not part.is_first_written, [*choices.values()][::-1])
        )
        self._unwritten = {
            f"{key}={part.options[0]}".replace(" ", "_")
            for key, part in choices.items()
            if not part.is_first_written
        }
        if not self.choices:
            raise UserError(f"space={name} has no choices; name some: space(build, depth=[2, 3])")
        for key, options in self.choices.items():
            if not 0 < len(set(map(str, options))) == len(options):
                raise UserError(f"space={name}: {key}={list(options)} must be different options")
        self._conditions = [
            (position, *self._condition(key, part.when))
            for position, (key, part) in enumerate(choices.items())
            if part.when is not None
        ]
        self.default_network = None if default_network is None else self.parse(default_network)

    def _condition(
        self, key: str, when: Callable[..., bool]
    ) -> tuple[list[int], Bool[ndarray, "..."]]:
        """Positions that a condition depends on, and whether it is true, by their choices."""
        before = self.positions[: self.positions.index(key)]
        names = list(inspect.signature(when).parameters)
        for name in names:
            if name not in before:
                raise UserError(
                    f"space={self.name}: when= of {key} depends on {name}, which is not a choice before it"
                )
        options = [self.choices[name] for name in names]
        true = np.empty([len(values) for values in options], bool)
        for at in np.ndindex(true.shape):
            chosen = [values[choice] for values, choice in zip(options, at, strict=True)]
            true[at] = when(**dict(zip(names, chosen, strict=True)))
        return [before.index(name) for name in names], true

    def switched_on(self, architectures: Int64[ndarray, "*n D"]) -> Bool[ndarray, "*n D"]:
        """Return True where a position has no condition, or the choices before it meet it."""
        rows = np.array(architectures, np.int64)
        on = np.ones(rows.shape, bool)
        for position, others, true in self._conditions:
            inside = np.clip(rows[..., others], 0, np.array(true.shape) - 1)
            on[..., position] = true[tuple(np.moveaxis(inside, -1, 0))]
            rows[..., position] *= on[..., position]
        return on

    def text(self, architecture: Int64[ndarray, "D"]) -> str:
        """Write an architecture as `position=option`, without options that are not written."""
        return self._written(super().text(architecture))

    def parse(self, text: str) -> Int64[ndarray, "D"]:
        """Read what `text` wrote, or the same with the options that are not written.

        Raises:
          UserError: if the text is no architecture of this space.
        """
        return super().parse(self._written(text))

    def _written(self, text: str) -> str:
        return " ".join(word for word in text.split() if word not in self._unwritten)

    def network(self, architecture: Int64[ndarray, "D"], task: Task) -> nn.Module:
        """The network that the function builds."""
        return self._build(task, **self.chosen(architecture))

    def __getstate__(self) -> dict[str, Any]:
        """The space for another process, with a function that may be a lambda or a script's own."""
        import cloudpickle  # noqa: PLC0415 - trainings at once only

        return {**vars(self), "_build": cloudpickle.dumps(self._build)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        import cloudpickle  # noqa: PLC0415 - loaded when needed

        vars(self).update(state, _build=cloudpickle.loads(state["_build"]))


def complete_rows(rows: Int64[ndarray, "n d"], space: SearchSpace) -> Int64[ndarray, "n D"]:
    """Rows from before the space gained its last choices, with the first options of these."""
    missing = len(space.num_choices) - rows.shape[-1]
    gained = space.gained_last if isinstance(space, FunctionSpace) else 0
    return np.pad(rows, ((0, 0), (0, missing))) if 0 < missing <= gained else rows


@final
class ListedFunctionSpace(FunctionSpace):
    """Networks few enough to be listed, in the lexicographic order of their rows."""

    @cached_property
    def _rows(self) -> Int64[ndarray, "size D"]:
        every = np.stack([axis.ravel() for axis in np.indices(self.num_choices)], axis=-1)
        return np.unique(self.normal(every), axis=0)

    @cached_property
    def size(self) -> int:
        """Number of different architectures."""
        return len(self._rows)

    @cached_property
    def _number_at_place(self) -> Int64[ndarray, "combinations"]:
        numbers = np.zeros(math.prod(self.num_choices), np.int64)
        numbers[np.ravel_multi_index(tuple(self._rows.T), self.num_choices)] = np.arange(self.size)
        return numbers

    def architectures(self, numbers: Int64[ndarray, "*n"]) -> Int64[ndarray, "*n D"]:
        """Architecture of each number."""
        return np.asarray(self._rows[numbers])

    def numbers(self, architectures: Int64[ndarray, "*n D"]) -> Int64[ndarray, "*n"]:
        """Number of each architecture.

        Raises:
          IndexError: if a choice lies outside the space.
        """
        if not self.valid(architectures).all():
            raise IndexError(f"a choice lies outside {self.num_choices}")
        rows = np.moveaxis(self.normal(architectures), -1, 0)
        return np.asarray(
            self._number_at_place[np.ravel_multi_index(tuple(rows), self.num_choices)]
        )
