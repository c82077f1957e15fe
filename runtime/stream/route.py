"""The places of a pass: which layer lies where in a ring, and what must be over before it may."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from runtime.stream.layers import Layered
from runtime.stream.ring import PAGE_BYTES, ByteRing
from runtime.stream.stages import Architecture, StreamPlan


@final
@dataclass(frozen=True)
class Slot:
    """Where a streamed layer lies in a ring; the same in every pass, so that graphs stay valid."""

    offset: int
    free_after: int
    """So many streamed layers must have left the ring before."""


@final
@dataclass(frozen=True)
class Route:
    """How the weights of a network get to its kernels."""

    streamed: tuple[int, ...]
    """The layers that are not resident."""
    resident: tuple[int, ...]
    host: tuple[Slot, ...] | None
    """Of each streamed layer in host memory; None if there is no such ring."""
    device: tuple[Slot, ...] | None
    is_synchronous: bool


def route(layered: Layered, plan: StreamPlan) -> Route:
    """Of a plan, which is checked.

    Raises:
      ValueError: if the plan is of another network, or a ring is too small for a layer.
    """
    if len(plan.resident) != len(layered.layers):
        raise ValueError(
            f"the plan is of {len(plan.resident)} layers, the network has {len(layered.layers)}"
        )
    streamed = tuple(i for i, is_resident in enumerate(plan.resident) if not is_resident)
    sizes = [layered.layers[i].nbytes for i in streamed]
    is_synchronous = plan.architecture is Architecture.SYNCHRONOUS
    slots = double_slots if is_synchronous else ring_slots
    rings = [
        slots(sizes, capacity) if capacity and streamed else None
        for capacity in (plan.host_ring_bytes, plan.device_ring_bytes)
    ]
    return Route(
        streamed=streamed,
        resident=tuple(i for i, is_resident in enumerate(plan.resident) if is_resident),
        host=rings[0],
        device=rings[1],
        is_synchronous=is_synchronous,
    )


def ring_slots(sizes: Sequence[int], capacity_bytes: int) -> tuple[Slot, ...]:
    """Each as early as the ring allows, the oldest going only when they must.

    Raises:
      ValueError: if one does not fit into the empty ring.
    """
    ring = ByteRing(capacity_bytes)
    slots = []
    gone = 0
    for size in sizes:
        while (offset := ring.reserve(size)) is None:
            ring.release()
            gone += 1
        slots.append(Slot(offset, gone))
    return tuple(slots)


def double_slots(sizes: Sequence[int], capacity_bytes: int) -> tuple[Slot, ...]:
    """Two buffers in turns.

    Raises:
      ValueError: if one does not fit into half of the memory.
    """
    half = capacity_bytes // 2 // PAGE_BYTES * PAGE_BYTES
    if max(sizes) > half:
        raise ValueError(
            f"a layer of {max(sizes)} bytes does not fit into one of two buffers of {half}"
        )
    return tuple(Slot(i % 2 * half, max(0, i - 1)) for i in range(len(sizes)))
