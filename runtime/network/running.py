"""What an executor asks of a network: jobs, each for the lane on which it goes."""

from __future__ import annotations

from abc import abstractmethod
from typing import Protocol, runtime_checkable

from torch import Tensor

from runtime.network.completion import Compute
from runtime.network.kinds import Kind


@runtime_checkable
class Running(Protocol):
    """One inference under way; its jobs are asked for in their order, each once."""

    @abstractmethod
    def job(self, index: int, lane: int) -> Compute:
        """What the lane has to do for segment `index`, once the job before has ended."""

    @property
    @abstractmethod
    def output(self) -> Tensor:
        """The network's output, on the CPU or where it was computed; the caller's own.

        Raises:
          RuntimeError: if segments have still to run.
        """


@runtime_checkable
class Runnable(Protocol):
    """A network cut into segments."""

    @abstractmethod
    def __len__(self) -> int:
        """Segments."""

    @property
    @abstractmethod
    def kinds(self) -> tuple[Kind, ...]:
        """Of each segment."""

    @abstractmethod
    def runs_on(self, lane: int) -> bool:
        """Whether the lane may be asked to run it."""

    @abstractmethod
    def start(self, x: Tensor) -> Running:
        """Begins an inference; the one before it, of the same network, must be over."""
