"""Networks that run in a loop beside the measured one.

On a CPU each is a process with one core and one thread; on a GPU each is a captured graph on its own
stream, launched by a thread. Each inference counts the bytes of the weights as moved, the minimum
that it reads.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

from runtime.contention.hogs import process_hogs
from runtime.contention.hogs.hog import Hog, HogContext, RunningHog

BESIDE = ("nb201", "resnet50", "vgg16", "alexnet")
"""The networks of `runtime.contention.networks` that can run beside another."""


@final
@dataclass(frozen=True)
class NetworkHog(Hog):
    """A network with random weights that runs without pause."""

    network: str  # of BESIDE
    core: int | None = None
    gpu: bool = False
    gb_per_s: float = math.inf  # of weights

    @property
    def name(self) -> str:
        """Name used in tables."""
        return self.network

    def start(self, context: HogContext, number: int) -> RunningHog:
        """Build the network (on a GPU: capture it) and run it in a loop."""
        if self.gpu:
            from runtime.contention.hogs import gpu_hogs  # noqa: PLC0415 - imports torch

            return gpu_hogs.start_network(context, number, self.network, self.core)
        return process_hogs.start_network(context, number, self.network, self.core)
