"""One inference at a time with the weights on their way: what a pipeline on any device does."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Protocol, final

from torch import Tensor

from runtime.weight_streaming.pipeline.buffers import Buffers
from runtime.weight_streaming.pipeline.progress import Stage


@final
@dataclass(frozen=True)
class LayerTimes:
    """What a layer's stages took in a run, each from its begin to its end; waiting is not in it.

    Of a layer that was brought ahead for the next inference already, reading and copying are that one's.
    """

    read_ms: float = 0.0
    copy_ms: float = 0.0
    kernel_ms: float = 0.0


class Pipeline(Protocol):
    """A network by a plan, its memory taken. For one thread at a time."""

    @property
    @abstractmethod
    def buffers(self) -> Buffers:
        """Its memory."""

    @abstractmethod
    def run(self, x: Tensor) -> Tensor:
        """The output, on the device of the kernels.

        Everything has ended when it returns, but for what the plan has brought ahead for the next
        inference. The first one begins with empty rings.

        Raises:
          BaseException: the first error of any stage, of one that came while nothing was asked for
            too; all stages have ended.
        """

    @property
    @abstractmethod
    def times(self) -> list[LayerTimes]:
        """Of each layer in the latest run."""

    @abstractmethod
    def sync_ms(self, stage: Stage) -> float:
        """How much later than it could each layer's stage began in the latest run; the median.

        0 where that cannot be told, as of stages that step together or bring layers ahead.
        """

    @abstractmethod
    def repeat_kernels(self, times: int) -> None:
        """From now on a layer's kernels run so often that they seldom wait: for profiles alone.

        Outputs are of no use then.
        """

    @abstractmethod
    def rest(self) -> None:
        """Waits until all that is brought ahead is there: nothing goes on then."""

    @abstractmethod
    def empty(self) -> None:
        """Ends what goes on; the next inference begins with empty rings, like the first."""

    @abstractmethod
    def close(self) -> None:
        """Ends what goes on and gives its memory back; what went wrong meanwhile is nobody's loss."""


def writes_weights(layer: str) -> str:
    """What is said of a layer that cannot be streamed."""
    return (
        f"layer {layer} writes to its weights or buffers, which are read anew for each inference; "
        "it cannot be streamed"
    )
