"""One inference at a time with the weights on their way: what a pipeline on any device does."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Protocol, final

from torch import Tensor

from runtime.stream.buffers import Buffers


@final
@dataclass(frozen=True)
class LayerTimes:
    """What a layer's stages took, one after the other."""

    read_ms: float
    copy_ms: float
    kernel_ms: float


class Pipeline(Protocol):
    """A network by a plan, its memory taken. For one thread at a time."""

    @property
    @abstractmethod
    def buffers(self) -> Buffers:
        """Its memory."""

    @abstractmethod
    def run(self, x: Tensor) -> Tensor:
        """The output, on the device of the kernels; everything has ended when it returns.

        Raises:
          BaseException: the first error of any stage; all stages have ended.
        """

    @abstractmethod
    def times(self, x: Tensor) -> list[LayerTimes]:
        """Of each layer, nothing overlapping: a profile."""

    @abstractmethod
    def close(self) -> None:
        """Gives its memory back."""
