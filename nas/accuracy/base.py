"""Protocols of accuracy sources, and of the search spaces that they answer for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol, final, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float64, Int8, Int64
from numpy import ndarray

from edgenas_core.types.architectures import Enumerable, Keys
from edgenas_core.types.errors import UserError
from edgenas_core.types.task import Task
from latency.base import Space
from nas.fit.training.recipe import Recipe

if TYPE_CHECKING:
    from torch import Tensor, nn


class Split(Enum):
    """Images that the searched accuracy is measured on.

    `auto` is the validation split, or the test split where the source has no other.
    """

    auto = "auto"
    valid = "valid"
    test = "test"


@final
@dataclass(frozen=True)
class AccuracyTable:
    """Layout of the CSV of a benchmark's accuracies; its numbers are percent.

    A column is named `<task>_<split>` after the full training, `<task>_epoch<n>_<split>` after a
    shorter one. Test accuracy is of the full training.
    """

    file: str  # name in the data folder
    benchmark: str  # who trained the networks
    epochs: tuple[int, ...]  # lengths of training, the full one first
    origin: str  # how to make the file, a clause for error messages

    @property
    def full_epochs(self) -> int:
        """Length of the full training."""
        return self.epochs[0]

    def column(self, task: Task, split: Split, epochs: int) -> str:
        """Name of a column."""
        length = "" if epochs == self.full_epochs else f"epoch{epochs}_"
        return f"{task.name}_{length}{split.value}"

    def check_epochs(self, epochs: int) -> None:
        """Accept the lengths of training of this benchmark.

        Raises:
          UserError: if `epochs` is another number.
        """
        if epochs not in self.epochs:
            lengths = " or ".join(map(str, self.epochs))
            raise UserError(
                f"epochs={epochs}, but {self.benchmark} trained for {lengths} epochs; choose one "
                f"of them"
            )


@runtime_checkable
class HasAccuracyTable(Enumerable, Protocol):
    """A space with a benchmark's accuracies in a file, the answers of `accuracy=table`."""

    accuracy_table: AccuracyTable


@runtime_checkable
class HasSurrogate(Keys, Protocol):
    """A space with an embedded model of accuracy, the answers of `accuracy=surrogate`."""

    def surrogate(self, task: Task, split: Split, epochs: int) -> Accuracy:
        """Predict accuracies.

        Raises:
          UserError: if the model does not know this split or length of training.
        """


@runtime_checkable
class SharedNetwork(Protocol):
    """A `torch.nn.Module` that holds the weights of all architectures of a space: a supernet.

    It takes the task's images, and resizes them where an architecture takes others.
    """

    recipe: Recipe  # with any number of epochs
    shapes_vary: bool  # layers have thousands of shapes, as images of many sides have

    def of_step(self, rng: np.random.Generator) -> Int64[ndarray, "k D"]:
        """Architectures that one step trains; the first learns the labels, the others its outputs."""

    def choose(self, architecture: Int64[ndarray, "D"]) -> None:
        """Compute this architecture from now on."""

    def weights(self, architecture: Int64[ndarray, "D"]) -> Mapping[str, Tensor]:
        """Shared weights of an architecture, by their names in its own network.

        What is not among them stays as it is initialised; statistics are not of this architecture.
        """


@runtime_checkable
class Inherits(Space, Protocol):
    """A space whose networks begin with parts of the weights of one trained network, its supernet."""

    def supernet(self, task: Task) -> SharedNetwork:
        """Build the trained network, with a new classifier where the task has other classes."""

    @property
    def pretrained_normalisation(self) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
        """Mean and standard deviation of the images that it was trained on; None: of the user's own."""

    @property
    def origin(self) -> str:
        """Where the weights come from."""

    def original(self, task: Task) -> nn.Module | None:
        """The trained network, which its parts are compared with; None if its classes are others."""

    def smallest(self) -> Int64[ndarray, "D"]:
        """The network of the least multiply-accumulates."""

    def baselines(self) -> Int64[ndarray, "n D"]:
        """Networks that a user would choose among without a search, such as of widths scaled alike."""


@runtime_checkable
class HasWeights(Keys, Protocol):
    """A space of networks that begin with weights; a row chooses one, its side, and how deep it is tuned."""

    depths: Sequence[str]  # of tuning, the classifier alone first

    @property
    def candidates(self) -> str:
        """What there is to choose from, in words: networks, sides and licences."""

    def every_network(self, *, is_small: bool = False) -> Int64[ndarray, "n D"]:
        """All networks at all their sides, of which the classifier alone is tuned; `is_small`: those for small memories, too."""

    def require_weights(self, architectures: Int64[ndarray, "n D"]) -> None:
        """Check the files of these networks' weights."""

    def new_networks(self) -> Int64[ndarray, "n D"]:
        """Networks that begin with random initialisation all the same, the smallest first."""

    def is_new(self, architectures: Int64[ndarray, "*n D"]) -> Bool[ndarray, "*n"]:
        """Whether each begins with random initialisation."""

    def tuned_to(self, architectures: Int64[ndarray, "*n D"], depth: int) -> Int64[ndarray, "*n D"]:
        """The same networks at the same sides, tuned to a depth."""

    def depth(self, architectures: Int64[ndarray, "*n D"]) -> Int64[ndarray, "*n"]:
        """How deep each is tuned."""

    def layers(self, architectures: Int64[ndarray, "n D"]) -> Int64[ndarray, "n"]:
        """The same number for networks of the same layers, whatever their weights and side."""

    def prior(self, architectures: Int64[ndarray, "n D"]) -> Float64[ndarray, "n"]:
        """Accuracy that is expected of each before it is tried."""

    def origin(self, architecture: Int64[ndarray, "D"]) -> str:
        """Where the weights come from, their licence and their SHA-256."""

    def side(self, architecture: Int64[ndarray, "D"]) -> int:
        """Side of its images, pixels."""

    def normalisation(
        self, architecture: Int64[ndarray, "D"]
    ) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Mean and standard deviation of the images that the weights were trained on."""

    def start(self, architecture: Int64[ndarray, "D"], task: Task) -> nn.Module:
        """The network with its pretrained weights, and a new classifier."""

    def tuned(self, network: nn.Module, architecture: Int64[ndarray, "D"]) -> Collection[str]:
        """Names of the parameters that are tuned; all of them if everything is."""


@dataclass
class AccuracyConfig(ABC):
    """Settings of an accuracy source; `build` opens it."""

    @abstractmethod
    def build(self, space: Keys, task: Task, split: Split, epochs: int) -> Accuracy:
        """Open the source for one task, split and length of training.

        Raises:
          UserError: if it has no such answers.
        """


@final
@dataclass(frozen=True)
class Accuracies:
    """Answers of an accuracy source, and how each of them came about."""

    fraction: Float64[ndarray, "*n"]  # top-1, in [0, 1]
    kind: Int8[ndarray, "*n"]  # values of `edgenas_core.types.kind.Kind`


@runtime_checkable
class Accuracy(Protocol):
    """Knows how accurate an architecture is after training: top-1, as a fraction in [0, 1]."""

    @property
    def source(self) -> str:
        """`table` or `surrogate`; stored beside every result."""

    @property
    def description(self) -> str:
        """One line for the user: where the numbers come from, epochs and seeds."""

    @property
    def split(self) -> Split:
        """The split that `answer` is of: `valid` or `test`, never `auto`."""

    @property
    def instant(self) -> bool:
        """Whether asking is free, so that a whole space may be asked for."""

    def answer(self, architectures: Int64[ndarray, "*n D"]) -> Accuracies:
        """Top-1 accuracy on the split that is searched on, and the kind of each number.

        Raises:
          IndexError: if an architecture lies outside the space.
          UserError: if the source lacks one of the architectures.
        """

    def known(self, architectures: Int64[ndarray, "*n D"]) -> Bool[ndarray, "*n"]:
        """Return True where `answer` has a number."""

    def test(self, architectures: Int64[ndarray, "*n D"]) -> Float64[ndarray, "*n"]:
        """Top-1 accuracy on the test split, for reports only; NaN where the source has none.

        Raises:
          IndexError: if an architecture lies outside the space.
          UserError: if the source lacks one of the architectures.
        """


def at_chance(fraction: float, sd: float, classes: int) -> bool:
    """Whether an accuracy with its binomial standard deviation could be that of guessing.

    Guessing on as many images has a standard deviation of its own, which is smaller than that of an
    accuracy near one half.
    """
    guess = 1 / classes
    spread = 4 * sd**2 * guess * (1 - guess)  # sd is 0 for no image or all, which are far from it
    return fraction <= guess or (fraction - guess) ** 2 * fraction * (1 - fraction) < spread
