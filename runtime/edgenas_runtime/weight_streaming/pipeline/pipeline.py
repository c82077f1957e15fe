"""Interface of the pipelines that run a network while its weights are streamed."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Protocol, final

from torch import Tensor

from edgenas_runtime.weight_streaming.pipeline.buffers import Buffers
from edgenas_runtime.weight_streaming.pipeline.progress import StreamStage


@final
@dataclass(frozen=True)
class LayerTimes:
    """Durations of a layer's stages in a run, without waiting.

    For a layer that was already prefetched again, read and copy are those of the next inference.
    """

    read_ms: float = 0.0
    copy_ms: float = 0.0
    kernel_ms: float = 0.0


class Pipeline(Protocol):
    """A network under a plan, with its memory allocated; for one thread at a time."""

    buffers: Buffers
    """Memory of the rings and resident layers."""

    @abstractmethod
    def run(self, x: Tensor) -> Tensor:
        """Run one inference and return the output, on the device of the kernels.

        On return all stages have ended, except prefetching for the next inference. The first inference
        starts with empty rings.

        Raises:
          BaseException: the first error of any stage, also of prefetching since the previous inference;
            all stages have ended.
        """

    @property
    @abstractmethod
    def times(self) -> list[LayerTimes]:
        """Stage durations of each layer in the latest run."""

    @abstractmethod
    def sync_ms(self, stage: StreamStage) -> float:
        """Median delay between the moment a stage could start and its start in the latest run.

        0 where that is not measured: for stages in lockstep and for prefetching.
        """

    @abstractmethod
    def repeat_kernels(self, times: int) -> None:
        """Run each layer's kernels several times from now on, to keep the device busy in profiles.

        The outputs are then not valid.
        """

    @abstractmethod
    def wait_prefetched(self) -> None:
        """Block until prefetching for the next inference has ended."""

    @abstractmethod
    def empty_rings(self) -> None:
        """Stop prefetching; the next inference starts with empty rings, like the first."""

    @abstractmethod
    def close(self) -> None:
        """Stop prefetching and release the memory; errors of prefetching are discarded."""


def writes_weights_message(layer: str) -> str:
    """Error message for a layer that writes to its weights."""
    return (
        f"layer {layer} writes to its weights or buffers, which are reloaded for each inference; "
        "it cannot be streamed"
    )
