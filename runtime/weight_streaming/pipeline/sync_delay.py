"""Synchronisation delay of a stage: from the end of its dependencies to its start."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import median

from runtime.weight_streaming.pipeline.layout import RingLayout
from runtime.weight_streaming.pipeline.progress import StreamStage

Done = tuple[StreamStage, int]
"""A stage and the index of the layer that it has finished."""


def sync_ms(
    layout: RingLayout, stage: StreamStage, since_ms: Callable[[Done, Done], float]
) -> float:
    """Return the median delay over the streamed layers; 0 if no layer has the stage.

    `since_ms` returns the time from the end of its first argument to the start of its second, ms.
    """
    delays_ms = [
        min(since_ms(need, (stage, layer)) for need in needs)
        for layer, needs in _needs(layout, stage)
        if needs
    ]
    return max(0.0, median(delays_ms)) if delays_ms else 0.0


def _needs(layout: RingLayout, stage: StreamStage) -> Iterator[tuple[int, list[Done]]]:
    """Yield each streamed layer with the dependencies of its stage."""
    rings = {StreamStage.READ: layout.host, StreamStage.COPY: layout.device}
    if stage is StreamStage.KERNEL:
        arrives = StreamStage.READ if layout.device is None else StreamStage.COPY
        if rings[arrives] is None:
            return
        for layer in layout.streamed:
            before = [(StreamStage.KERNEL, layer - 1)] if layer else []
            yield layer, [(arrives, layer), *before]
        return
    ring = rings[stage]
    if ring is None:
        return
    leaves = (
        StreamStage.COPY
        if stage is StreamStage.READ and layout.device is not None
        else StreamStage.KERNEL
    )
    for ordinal, (layer, place) in enumerate(zip(layout.streamed, ring, strict=True)):
        needs: list[Done] = [(stage, layout.streamed[ordinal - 1])] if ordinal else []
        if stage is StreamStage.COPY and layout.host is not None:
            needs.append((StreamStage.READ, layer))
        if place.after is not None:
            needs.append((leaves, layout.streamed[place.after]))
        yield layer, needs
