"""Input and output of the planner: layers with stage times, and streaming plans."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import final


class StreamStages(str, Enum):
    """Stages that a layer's weights pass in one inference."""

    READ_COPY_KERNEL = "read_copy_kernel"
    """From a disk through a ring in host memory into a ring in device memory."""
    READ_KERNEL = "read_kernel"
    """From a disk into a ring in host memory, used there by the CPU or by a GPU (zero copy)."""
    COPY_KERNEL = "copy_kernel"
    """From host memory, which holds all weights, into a ring in device memory."""

    @property
    def reads(self) -> bool:
        """Whether there is a ring in host memory."""
        return self is not StreamStages.COPY_KERNEL

    @property
    def copies(self) -> bool:
        """Whether there is a ring in device memory."""
        return self is not StreamStages.READ_KERNEL


@final
@dataclass(frozen=True)
class StreamedLayer:
    """A layer and the duration of each of its stages."""

    name: str
    weight_bytes: int
    """0 for a layer without weights, which has neither read nor copy."""
    read_ms: float
    """Time to read the weights into host memory."""
    copy_ms: float
    """Time to copy the weights into device memory; 0 where kernels read host memory."""
    kernel_ms: float
    sync_ms: float = 0.0
    """Synchronisation overhead before a kernel whose weights have already arrived."""
    read_start_ms: float = 0.0
    """Part of `read_ms` that does not depend on bytes: a bundle has it once."""
    copy_start_ms: float = 0.0
    """Part of `copy_ms` that does not depend on bytes."""

    def __post_init__(self) -> None:
        """Validate the numbers.

        Raises:
          ValueError: if a number is negative, infinite or NaN.
        """
        for field, value in {**vars(self), "name": 0}.items():
            if not 0 <= value < math.inf:
                raise ValueError(f"layer {self.name} has {field} {value}")


@final
@dataclass(frozen=True)
class StreamPlan:
    """Resident layers and ring sizes of a network.

    The rings determine the stages. Both rings: read, copy and kernel. Host ring only: read and kernel.
    Device ring only: copy and kernel, with all weights in host memory. No ring: all layers are resident.
    """

    resident: tuple[bool, ...]
    """By layer: True if its weights stay in the memory of its kernels."""
    host_ring_bytes: int
    device_ring_bytes: int
    predicted_ms: float
    """Predicted delay of one inference: steady state if `ahead`, else starting with empty rings."""
    memory_bytes: int
    """Bytes of resident layers and rings together."""
    ahead: bool = False
    """Whether weights are prefetched for the next inference."""
    first_ms: float = 0.0
    """Predicted delay of the first inference, with empty rings; 0 if not predicted."""
    tile_bytes: int = 0
    """Size above which layers are cut into tiles, which `resident` then counts as layers; 0: none."""
    bundle_bytes: int = 0
    """Size up to which neighbouring streamed layers are handed over together; 0: none."""


def pareto_front(plans: Iterable[StreamPlan]) -> list[StreamPlan]:
    """Plans that are faster than every plan of no more memory, sorted by memory."""
    front: list[StreamPlan] = []
    for plan in sorted(plans, key=lambda plan: (plan.memory_bytes, plan.predicted_ms)):
        if not front or plan.predicted_ms < front[-1].predicted_ms * (1 - 1e-12):
            front.append(plan)
    return front
