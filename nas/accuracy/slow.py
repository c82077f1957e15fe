"""Accuracies that are slow: one trial at a time, out of order, and some fail."""

from __future__ import annotations

import math
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol, final, runtime_checkable

from jaxtyping import Int64
from numpy import ndarray

from edgenas_core.types.kind import Kind


@final
@dataclass(frozen=True)
class Fidelity:
    """Thoroughness of an evaluation: the length of its training, and its learning rate."""

    name: str  # as in files and on pages: "12 epochs"
    epochs: int
    rate: float = 1.0  # learning rate, as a multiple of the recipe's


@final
@dataclass(frozen=True)
class Evaluation:
    """The answer to one trial."""

    accuracy: float  # top-1 on the split that is searched on, a fraction
    kind: Kind
    seconds: float  # that the evaluation took
    losses: tuple[float, ...] = ()  # of a training, the mean of each epoch


@runtime_checkable
class SlowAccuracySource(Protocol):
    """Evaluates trials in the background."""

    @property
    def source(self) -> str:
        """Name stored beside every result."""

    @property
    def description(self) -> str:
        """One line for the user: where the numbers come from."""

    @property
    def fidelities(self) -> tuple[Fidelity, ...]:
        """Fidelities, from the cheapest to the most thorough."""

    def submit(
        self, trial: int, architecture: Int64[ndarray, "D"], fidelity: int, seed: int
    ) -> Future[Evaluation]:
        """Begin to evaluate a trial; the future raises what the evaluation raised."""

    def wait(self, timeout_s: float = math.inf) -> Future[Evaluation] | None:
        """Wait for the next submitted future to end; None if none does in time.

        Each is returned once, in order of completion.
        """

    def now_s(self) -> float:
        """Seconds on the clock that the source keeps, from any beginning."""

    def close(self) -> None:
        """End what is still running; its trials are evaluated again when the search goes on."""
