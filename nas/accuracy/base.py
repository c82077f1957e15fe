"""What every accuracy source promises."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, final, runtime_checkable

from jaxtyping import Bool, Float64, Int8, Int64
from numpy import ndarray

from runtime.network.task import Task


class Split(Enum):
    """What is searched on. `auto` is the validation split, or test where a source has no other."""

    auto = "auto"
    valid = "valid"
    test = "test"


@runtime_checkable
class Space(Protocol):
    """What an accuracy source needs of a search space."""

    name: str

    def text(self, architecture: Int64[ndarray, "D"]) -> str:
        """Write an architecture as one line."""

    def parse(self, text: str) -> Int64[ndarray, "D"]:
        """Read what `text` wrote.

        Raises:
          UserError: if the text is no architecture of this space.
        """


@runtime_checkable
class HasSurrogate(Space, Protocol):
    """A space with an embedded model of accuracy, the answer of `accuracy=surrogate`."""

    def surrogate(self, task: Task, split: Split, epochs: int) -> Accuracy:
        """Predict accuracies.

        Raises:
          UserError: if the model does not know this split or length of training.
        """


@dataclass
class AccuracyConfig(ABC):
    """Settings of an accuracy source; `build` opens it."""

    @abstractmethod
    def build(self, space: Space, task: Task, split: Split, epochs: int) -> Accuracy:
        """The source's answers for one data set, split and length of training.

        Raises:
          UserError: if it has no such answers.
        """


@final
@dataclass(frozen=True)
class Accuracies:
    """Answers of an accuracy source, and how each of them came about."""

    fraction: Float64[ndarray, "*n"]  # top-1, in [0, 1]
    kind: Int8[ndarray, "*n"]  # values of `runtime.shell.provenance.Kind`


@runtime_checkable
class Accuracy(Protocol):
    """Knows how accurate an architecture is after training: top-1, as a fraction in [0, 1]."""

    @property
    def source(self) -> str:
        """`table`, `nats` or `surrogate`; stored beside every result."""

    @property
    def description(self) -> str:
        """One line for the user: where the numbers come from, epochs and seeds."""

    @property
    def split(self) -> Split:
        """The split that `__call__` answers for: `valid` or `test`, never `auto`."""

    @property
    def tabular(self) -> bool:
        """Whether asking for the whole space is free, so that the exact optimum is known."""

    def __call__(self, architectures: Int64[ndarray, "*n 6"]) -> Float64[ndarray, "*n"]:
        """Top-1 accuracy on the split that is searched on.

        Raises:
          UserError: if the source lacks one of the architectures.
        """

    def known(self, architectures: Int64[ndarray, "*n 6"]) -> Bool[ndarray, "*n"]:
        """Which architectures `__call__` has an answer for."""

    def test(self, architectures: Int64[ndarray, "*n 6"]) -> Float64[ndarray, "*n"]:
        """Top-1 accuracy on the test split, for reports only; NaN where the source has none.

        Raises:
          UserError: if the source lacks one of the architectures.
        """
