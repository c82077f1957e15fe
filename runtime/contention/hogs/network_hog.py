"""Networks that run beside the one that is measured, again and again, as programs of their own would.

On a processor each is a process with a core and one thread; on a GPU each is a captured graph on a
stream of its own, launched by a thread. What they count as moved is their weights, once an
inference: the least that an inference reads.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

from runtime.contention.hogs import process_hogs
from runtime.contention.hogs.hog import Hog, Place, RunningHog

BESIDE = ("nb201", "resnet50", "vgg16", "alexnet")
"""Of `runtime.contention.hogs.victims`, those that can run beside another."""


@final
@dataclass(frozen=True)
class NetworkHog(Hog):
    """A network without a break; random weights."""

    network: str  # of BESIDE
    core: int | None = None
    gpu: bool = False
    gb_per_s: float = math.inf  # of weights

    @property
    def name(self) -> str:
        """For tables."""
        return self.network

    def start(self, place: Place, number: int) -> RunningHog:
        """Builds the network first; on a GPU it is captured."""
        if self.gpu:
            from runtime.contention.hogs import gpu_hogs  # noqa: PLC0415 - imports torch

            return gpu_hogs.start_network(place, number, self.network, self.core)
        return process_hogs.start_network(place, number, self.network, self.core)
