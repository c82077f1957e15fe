"""Accuracy from NATS-Bench's official archive, without importing it first."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import final

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray
from omegaconf import MISSING

from nas.accuracy.base import AccuracyConfig, Space, Split
from nas.spaces.nas_bench_201.archive import NatsArchive
from nas.spaces.nas_bench_201.space import NAS_BENCH_201
from nas.spaces.nas_bench_201.training_length import FULL_EPOCHS, check_epochs
from runtime.network.task import Task


@final
@dataclass
class NatsAccuracyConfig(AccuracyConfig):
    """Reads 10 ms of file for each new architecture; `python -m nas.data import` reads all once."""

    archive: Path = MISSING  # the unpacked folder, NATS-tss-v1_0-3ffb9-simple

    def build(self, space: Space, task: Task, split: Split, epochs: int) -> NatsAccuracy:  # noqa: ARG002
        """Open the archive; cells are read when they are asked for.

        Raises:
          UserError: if the folder is no archive, or `epochs` neither 200 nor 12.
        """
        check_epochs(epochs)
        searched = Split.valid if split is Split.auto else split
        return NatsAccuracy(NatsArchive(Path(self.archive).expanduser()), task, searched, epochs)


@final
@dataclass(frozen=True)
class NatsAccuracy:
    """Asks the archive once for each architecture, and remembers."""

    archive: NatsArchive
    task: Task
    split: Split
    epochs: int
    source: str = "nats"
    tabular: bool = False
    _known: dict[tuple[int, int], tuple[float, float]] = field(default_factory=dict, repr=False)

    @property
    def description(self) -> str:
        """One line for the user: where the numbers come from, epochs and seeds."""
        return (
            f"nats: archive {self.archive.folder}, {self.task.name} {self.split.value} "
            f"after {self.epochs} epochs, mean over its seeds"
        )

    def __call__(self, architectures: Int64[ndarray, "*n 6"]) -> Float64[ndarray, "*n"]:
        """Top-1 accuracy on the split that is searched on, a fraction.

        Raises:
          UserError: if the archive lacks one of the architectures.
        """
        return self._ask(architectures, self.split, self.epochs)

    def known(self, architectures: Int64[ndarray, "*n 6"]) -> Bool[ndarray, "*n"]:
        """Which architectures the archive holds."""
        indices = NAS_BENCH_201.numbers(architectures)
        held = [self.archive.has(int(i)) for i in indices.reshape(-1)]
        return np.array(held, bool).reshape(indices.shape)

    def test(self, architectures: Int64[ndarray, "*n 6"]) -> Float64[ndarray, "*n"]:
        """Top-1 accuracy on the test split after 200 epochs, a fraction.

        Raises:
          UserError: if the archive lacks one of the architectures.
        """
        return self._ask(architectures, Split.test, FULL_EPOCHS)

    def _ask(
        self, architectures: Int64[ndarray, "*n 6"], split: Split, epochs: int
    ) -> Float64[ndarray, "*n"]:
        indices = NAS_BENCH_201.numbers(architectures)
        position = (Split.valid, Split.test).index(split)
        numbers = [self._one(int(i), epochs)[position] for i in indices.reshape(-1)]
        return np.array(numbers, np.float64).reshape(indices.shape)

    def _one(self, index: int, epochs: int) -> tuple[float, float]:
        if (index, epochs) not in self._known:
            self._known[index, epochs] = self.archive.accuracy(index, self.task, epochs)
        return self._known[index, epochs]
