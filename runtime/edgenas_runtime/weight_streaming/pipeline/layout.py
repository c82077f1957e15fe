"""Layout of a plan: the offset of each streamed layer in the rings, and what each stage waits for.

The order in which one thread launches asynchronous copies and kernels on a GPU follows from it, and so
does the synchronisation delay of a stage: from the end of its dependencies to its start.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median
from typing import final

from edgenas_runtime.weight_streaming.files.layers import LayeredNetwork
from edgenas_runtime.weight_streaming.pipeline.progress import StreamStage
from edgenas_runtime.weight_streaming.planning.plan import StreamPlan
from edgenas_runtime.weight_streaming.planning.ring import RingPlace, cyclic_places, places

_COPIES_PER_LAYER = 2
"""Maximum number of copies launched in advance before the kernels of one layer."""

Done = tuple[StreamStage, int]
"""A stage and the index of the layer that it has finished."""


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
    is_ahead: bool = False
    """Whether the first stage (reading, else copying) prefetches for the next inference."""

    def needs(self, stage: StreamStage, ordinal: int) -> list[tuple[StreamStage, int]]:
        """Return the (stage, streamed layer) pairs that must end before this stage of a layer begins.

        The same stage of the previous layer is left out; a negative layer is one of the previous inference.
        """
        needs: list[tuple[StreamStage, int]] = []
        ring = {StreamStage.READ: self.host, StreamStage.COPY: self.device}.get(stage)
        after = None if ring is None else ring[ordinal].after
        if after is not None:
            is_copied = stage is StreamStage.READ and self.device is not None
            needs.append((StreamStage.COPY if is_copied else StreamStage.KERNEL, after))
        if stage is StreamStage.KERNEL and self.device is not None:
            needs.append((StreamStage.COPY, ordinal))
        elif stage is not StreamStage.READ and self.host is not None:
            needs.append((StreamStage.READ, ordinal))
        return needs

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
        waiting = (
            i for i, place in enumerate(first) if place.after is not None and place.after >= 0
        )
        return next(waiting, len(first))  # the first layer that waits for this inference


def layout_of(layered: LayeredNetwork, plan: StreamPlan) -> RingLayout:
    """Return the layout of a network under a plan.

    Raises:
      ValueError: if a ring is too small for a layer.
    """
    streamed = tuple(i for i, is_resident in enumerate(plan.resident) if not is_resident)
    sizes = [layered.layers[i].nbytes for i in streamed]
    first = cyclic_places if plan.ahead else places
    host = device = None
    if streamed and plan.host_ring_bytes:
        host = first(sizes, plan.host_ring_bytes)
    if streamed and plan.device_ring_bytes:
        device = (first if host is None else places)(sizes, plan.device_ring_bytes)
    return RingLayout(
        streamed=streamed,
        resident=tuple(i for i, is_resident in enumerate(plan.resident) if is_resident),
        host=host,
        device=device,
        is_ahead=plan.ahead,
    )


def launch_order(
    layout: RingLayout, layers: int, begun: int = 0
) -> Iterator[tuple[StreamStage, int]]:
    """Yield (COPY, index of a streamed layer) and (KERNEL, index of a layer of the network).

    Each launch comes after its dependencies: kernels after their copy, a copy after the kernels that use
    its bytes last. Where nothing is read, copies are launched in advance, because a GPU copies small
    layers faster than they are launched; but only a few at once, because the next kernels wait for their
    launch during that time. If the layout prefetches, the first copies of the next inference follow, with
    indices that continue after the last streamed layer.

    `begun` is the number of copies that the previous inference has launched.
    """
    copies = begun
    for layer in range(layers):
        needed = bisect_right(layout.streamed, layer)
        ahead = max(needed, copies)
        if layout.host is None and layout.device is not None:
            ahead = max(ahead, min(copies + _COPIES_PER_LAYER, _free(layout, copies, layer)))
        for ordinal in range(copies, ahead):
            yield StreamStage.COPY, ordinal
        copies = ahead
        yield StreamStage.KERNEL, layer
    if layout.host is None and layout.device is not None:
        for ordinal in range(copies, _free(layout, copies, layers)):
            yield StreamStage.COPY, ordinal


def _free(layout: RingLayout, copies: int, layer: int) -> int:
    """Return the number of copies that depend only on kernels before a layer."""
    assert layout.device is not None
    count = len(layout.device)
    end = count + layout.prefetched_layers
    for ordinal in range(copies, end):
        waits_for = kernels_before(layout, ordinal)
        if waits_for is not None and waits_for >= layer:
            return ordinal
    return end


def kernels_before(layout: RingLayout, ordinal: int) -> int | None:
    """Return the layer of this inference whose kernels must end before a copy; None if none.

    `ordinal` is the index of a copy in `launch_order`, which continues into the next inference.
    """
    assert layout.device is not None
    count = len(layout.device)
    after = layout.device[ordinal % count].after
    if after is None or (after < 0 and ordinal < count):
        return None
    return layout.streamed[after]


def sync_ms(
    layout: RingLayout, stage: StreamStage, since_ms: Callable[[Done, Done], float]
) -> float:
    """Return the median delay over the streamed layers; 0 if no layer has the stage.

    `since_ms` returns the time from the end of its first argument to the start of its second, ms.
    """
    rings = (layout.host, layout.device, layout.device or layout.host)
    delays_ms = []
    for ordinal, layer in enumerate(layout.streamed if rings[stage] else ()):
        needs = [(other, layout.streamed[i]) for other, i in layout.needs(stage, ordinal)]
        if stage is StreamStage.KERNEL and layer:
            needs.append((stage, layer - 1))
        elif stage is not StreamStage.KERNEL and ordinal:
            needs.append((stage, layout.streamed[ordinal - 1]))
        if needs:
            delays_ms.append(min(since_ms(need, (stage, layer)) for need in needs))
    return max(0.0, median(delays_ms)) if delays_ms else 0.0
