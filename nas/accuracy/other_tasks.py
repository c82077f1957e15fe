"""What is known of a space's architectures on other tasks than the one that is searched: a prior for `guided`.

The scores of an architecture on every other task, -log(share of architectures that are more accurate), are averaged,
and half of each is the mean of the architectures that compute the same function. The searched task takes no part.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from controller.base import Choices
from edgenas_core.types.errors import UserError
from edgenas_core.types.task import Task
from latency.base import EnumerableSpace
from nas.accuracy.base import Accuracy, HasAccuracyTable, HasSurrogate, Split
from nas.accuracy.table import TableAccuracyConfig, table_path


@final
@dataclass(frozen=True)
class TaughtSpace:
    """The choices of a space, with what other tasks let expect of each architecture."""

    space: Choices
    numbers: Callable[[Int64[ndarray, "n D"]], Int64[ndarray, "n"]]
    score: Float64[ndarray, "size"]  # of unit variance, by number

    @property
    def num_choices(self) -> tuple[int, ...]:
        """Options of each position."""
        return self.space.num_choices

    def __getattr__(self, name: str) -> object:
        """Whatever else the space has, such as its descriptions."""
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.space, name)

    def normal(self, architectures: Int64[ndarray, "*n D"]) -> Int64[ndarray, "*n D"]:
        """Rows of the space."""
        return self.space.normal(architectures)

    def valid(self, architectures: Int64[ndarray, "*n D"]) -> Bool[ndarray, "*n"]:
        """True where a row is an architecture of the space."""
        return self.space.valid(architectures)

    def sample(self, rng: np.random.Generator, n: int) -> Int64[ndarray, "n D"]:
        """Valid architectures."""
        return self.space.sample(rng, n)

    def neighbours(self, architecture: Int64[ndarray, "D"]) -> Int64[ndarray, "n D"]:
        """Architectures that differ in one choice."""
        return self.space.neighbours(architecture)

    def expected(self, architectures: Int64[ndarray, "n D"]) -> Float64[ndarray, "n"]:
        """Score of each architecture on the other tasks; larger is more accurate."""
        return np.asarray(self.score[self.numbers(architectures)])


def taught(space: Choices, task: Task) -> Choices:
    """The space with what its other tasks teach, by the benchmark's table or the embedded model; else the space.

    A task of the user's own has all tasks of the space as others.
    """
    others = [other for other in getattr(space, "tasks", {}).values() if other.name != task.name]
    if (
        not isinstance(space, EnumerableSpace)
        or not isinstance(space, HasAccuracyTable)
        or not others
    ):
        return space
    full, answers = space.accuracy_table.full_epochs, list[Accuracy]()
    for other in others:
        with suppress(UserError):  # a table or a model that lacks the task teaches nothing of it
            if table_path(space).is_file():
                answers.append(TableAccuracyConfig.of_benchmark(space, other, Split.valid, full))
            elif isinstance(space, HasSurrogate):
                answers.append(space.surrogate(other, Split.valid, full))
    if not answers:
        return space
    every = space.architectures(np.arange(space.size))
    scores = np.mean([_score(answer.answer(every).fraction) for answer in answers], axis=0)
    _, function = np.unique(space.groups(every), return_inverse=True)
    of_function = np.bincount(function, scores) / np.bincount(function)
    scores = (scores + of_function[function]) / 2
    return TaughtSpace(space, space.numbers, (scores - scores.mean()) / scores.std())


def _score(accuracy: Float64[ndarray, "size"]) -> Float64[ndarray, "size"]:
    """-log(share of architectures that are more accurate)."""
    rank = np.argsort(np.argsort(-accuracy, kind="stable"), kind="stable")
    return np.asarray(-np.log((rank + 0.5) / len(accuracy)))
