"""Networks that run beside the one that is measured, again and again, as programs of their own would.

On a processor each is a process with a core and one thread; on a GPU each is a captured graph on a
stream of its own, launched by a thread. What they count as moved is their weights, once an
inference: the least that an inference reads.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from runtime.contention.hog import Hog, Place, RunningHog
from runtime.contention.process_hogs import start_python_hog

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

BESIDE = ("nb201", "resnet50", "vgg16", "alexnet", "yolov4")
"""Networks that can run beside another, by name: `runtime.contention.victims` and the models."""


@final
@dataclass(frozen=True)
class NetworkHog(Hog):
    """A network without a break; random weights, batch 1."""

    network: str
    core: int | None = None
    gb_per_s: float = math.inf
    gpu: bool = False

    @property
    def name(self) -> str:
        """For tables."""
        return self.network

    def start(self, place: Place, number: int) -> RunningHog:
        """Builds the network first; on a GPU it is captured."""
        if self.gpu:
            from runtime.contention.gpu_hogs import start_gpu_hog  # noqa: PLC0415 - imports torch

            return start_gpu_hog(place, number, self.core, self._captured)
        return start_python_hog(place, number, "network", 0, self.core, self.network)

    def _captured(self, stream: torch.cuda.Stream) -> tuple[Callable[[], object], int]:
        from runtime.contention.victims import captured  # noqa: PLC0415 - imports torch

        return captured(self.network, stream)
