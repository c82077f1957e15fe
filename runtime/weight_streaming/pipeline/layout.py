"""Layout of a plan: the offset of each streamed layer in the rings, and its dependencies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from runtime.weight_streaming.files.layers import LayeredNetwork
from runtime.weight_streaming.pipeline.progress import StreamStage
from runtime.weight_streaming.planning.plan import StreamArchitecture, StreamPlan
from runtime.weight_streaming.planning.ring import PAGE_BYTES, RingPlace, cyclic_places, places


@final
@dataclass(frozen=True)
class RingLayout:
    """Offsets and dependencies of the streamed layers of a network."""

    streamed: tuple[int, ...]
    """Indices of the layers that are not resident."""
    resident: tuple[int, ...]
    """Indices of the resident layers."""
    host: tuple[RingPlace, ...] | None
    """Place of each streamed layer in the host ring; None if there is none."""
    device: tuple[RingPlace, ...] | None
    """Place of each streamed layer in the device ring; None if there is none."""
    is_synchronous: bool
    """Whether stages advance in lockstep."""
    is_ahead: bool = False
    """Whether the first stage (reading, else copying) prefetches for the next inference."""

    def prefetches(self, stage: StreamStage) -> bool:
        """Return whether a stage prefetches for the next inference."""
        first = StreamStage.COPY if self.host is None else StreamStage.READ
        return self.is_ahead and stage is first

    @property
    def prefetched_layers(self) -> int:
        """Number of streamed layers of the next inference that are prefetched."""
        first = self.device if self.host is None else self.host
        if first is None or not self.is_ahead:
            return 0
        own = (i for i, place in enumerate(first) if place.after is not None and place.after >= 0)
        return next(own, len(first))  # the first layer that waits for this inference


def layout_of(layered: LayeredNetwork, plan: StreamPlan) -> RingLayout:
    """Return the layout of a network under a plan.

    Raises:
      ValueError: if the plan has another number of layers, or a ring is too small for a layer.
    """
    if len(plan.resident) != len(layered.layers):
        raise ValueError(
            f"the plan has {len(plan.resident)} layers, the network {len(layered.layers)}"
        )
    streamed = tuple(i for i, is_resident in enumerate(plan.resident) if not is_resident)
    sizes = [layered.layers[i].nbytes for i in streamed]
    is_synchronous = plan.architecture is StreamArchitecture.SYNCHRONOUS
    is_ahead = plan.ahead and not is_synchronous
    later = double_buffers if is_synchronous else places
    first = cyclic_places if is_ahead else later
    host = device = None
    if streamed and plan.host_ring_bytes:
        host = first(sizes, plan.host_ring_bytes)
    if streamed and plan.device_ring_bytes:
        device = (first if host is None else later)(sizes, plan.device_ring_bytes)
    return RingLayout(
        streamed=streamed,
        resident=tuple(i for i, is_resident in enumerate(plan.resident) if is_resident),
        host=host,
        device=device,
        is_synchronous=is_synchronous,
        is_ahead=is_ahead,
    )


def double_buffers(sizes: Sequence[int], capacity_bytes: int) -> tuple[RingPlace, ...]:
    """Alternate between two buffers of equal size.

    Raises:
      ValueError: if a layer does not fit into half of the memory.
    """
    half = capacity_bytes // 2 // PAGE_BYTES * PAGE_BYTES
    if max(sizes) > half:
        raise ValueError(
            f"a layer of {max(sizes)} bytes does not fit into one of two buffers of {half}"
        )
    return tuple(RingPlace(i % 2 * half, i - 2 if i >= 2 else None) for i in range(len(sizes)))
