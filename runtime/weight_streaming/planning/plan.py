"""What a planner knows of a streamed network, and what it decides."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any, final

_NO_BYTES = 2**63
"""More than any address."""


class Architecture(str, Enum):
    """How weights reach their kernels (Ji et al., RTSS 2022)."""

    PRELOAD = "preload"
    """All weights are in memory before the first kernel."""
    SYNCHRONOUS = "synchronous"
    """Read, copy and kernel step to the next layer together; double buffers between them."""
    ASYNCHRONOUS = "asynchronous"
    """Read, copy and kernel each at their own pace; a ring between them."""
    ZERO_COPY = "zero_copy"
    """Read and kernel, on one ring that both can reach."""
    PLANNED = "planned"
    """Rings and residents as the planner chose them; stages as the rings say."""


class Stages(str, Enum):
    """What happens to a layer's weights in one inference."""

    READ_COPY_KERNEL = "read_copy_kernel"
    """From a disk through host memory into device memory; a ring in each."""
    READ_KERNEL = "read_kernel"
    """From a disk into host memory, where the kernel uses them: a CPU's, or a GPU's zero-copy."""
    COPY_KERNEL = "copy_kernel"
    """From host memory, which holds all weights, into a ring in device memory."""

    @property
    def reads(self) -> bool:
        """Whether there is a ring in host memory."""
        return self is not Stages.COPY_KERNEL

    @property
    def copies(self) -> bool:
        """Whether there is a ring in device memory."""
        return self is not Stages.READ_KERNEL


@final
@dataclass(frozen=True)
class StreamedLayer:
    """A layer and the time of each of its stages, from when it could begin."""

    name: str
    weight_bytes: int
    """0 for a layer without weights, which is neither read nor copied."""
    read_ms: float
    """From where the weights are kept into host memory."""
    copy_ms: float
    """From host memory into device memory; 0 where kernels read host memory."""
    kernel_ms: float
    sync_ms: float = 0.0
    """How much later its kernel begins because it waits for weights, even if these are there."""

    def __post_init__(self) -> None:
        """Checks the numbers.

        Raises:
          ValueError: if one is negative, infinite or not a number.
        """
        for what in ("weight_bytes", "read_ms", "copy_ms", "kernel_ms", "sync_ms"):
            value = getattr(self, what)
            if not 0 <= value < math.inf:
                raise ValueError(f"layer {self.name} has {what} {value}")


@final
@dataclass(frozen=True)
class StreamPlan:
    """Where the weights of a network are while it runs.

    The rings say which stages there are: with both, read, copy and kernel; with the host's alone,
    read and kernel; with the device's alone, copy and kernel, of weights that stay in host memory;
    with neither, all is resident.
    """

    architecture: Architecture
    resident: tuple[bool, ...]
    """By layer; where true, it is always in the memory of its kernel."""
    host_ring_bytes: int
    device_ring_bytes: int
    predicted_ms: float
    """Of one inference: with `ahead` of one in a row of many, else of one from empty rings."""
    memory_bytes: int
    """Residents and rings."""
    ahead: bool = False
    """Whether what brings the weights goes on into the next inference; never in step."""
    first_ms: float = 0.0
    """Of one from empty rings, as the first one is; 0 if that was not predicted."""

    def to_json(self) -> str:
        """One line."""
        return json.dumps({**asdict(self), "architecture": self.architecture.value})

    @classmethod
    def from_json(cls, text: str) -> StreamPlan:
        """What `to_json` wrote.

        Raises:
          ValueError: if the text is no plan.
        """
        try:
            fields: dict[str, Any] = json.loads(text)
            architecture = Architecture(fields.pop("architecture"))
            resident = tuple(fields.pop("resident"))
            plan = cls(architecture, resident, **fields)
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"no plan: {error}") from error
        flags = (*resident, plan.ahead)
        nbytes = (plan.host_ring_bytes, plan.device_ring_bytes, plan.memory_bytes)
        times_ms = (plan.predicted_ms, plan.first_ms)
        if not (
            all(isinstance(one, bool) for one in flags)
            and all(isinstance(one, int) and 0 <= one < _NO_BYTES for one in nbytes)
            and all(isinstance(one, (int, float)) and 0 <= one < math.inf for one in times_ms)
        ):
            raise ValueError(f"no plan: {text:.200}")
        return plan


def pareto_front(plans: Iterable[StreamPlan]) -> list[StreamPlan]:
    """Plans that are faster than every plan of no more memory, sorted by memory."""
    front: list[StreamPlan] = []
    for plan in sorted(plans, key=lambda plan: (plan.memory_bytes, plan.predicted_ms)):
        if not front or plan.predicted_ms < front[-1].predicted_ms * (1 - 1e-12):
            front.append(plan)
    return front
