"""What every accuracy source promises."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from jaxtyping import Float64, Int64
    from numpy import ndarray


class Dataset(Enum):
    """The three data sets of NAS-Bench-201; the value is the name in files and on the command."""

    cifar10 = "cifar10"
    cifar100 = "cifar100"
    imagenet16 = "imagenet16"  # ImageNet16-120

    @property
    def num_classes(self) -> int:
        """How many classes a network tells apart."""
        return {Dataset.cifar10: 10, Dataset.cifar100: 100, Dataset.imagenet16: 120}[self]

    @property
    def image_size(self) -> int:
        """Side of the square images, in pixels."""
        return 16 if self is Dataset.imagenet16 else 32


class Split(Enum):
    """What is searched on. `auto` is the validation split, or test where a source has no other."""

    auto = "auto"
    valid = "valid"
    test = "test"


@dataclass
class AccuracyConfig(ABC):
    """Settings of an accuracy source; `build` opens it."""

    @abstractmethod
    def build(self, dataset: Dataset, split: Split, epochs: int) -> Accuracy:
        """The source's answers for one data set, split and length of training.

        Raises:
          UserError: if it has no such answers.
        """


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

    def test(self, architectures: Int64[ndarray, "*n 6"]) -> Float64[ndarray, "*n"]:
        """Top-1 accuracy on the test split, for reports only; NaN where the source has none.

        Raises:
          UserError: if the source lacks one of the architectures.
        """
