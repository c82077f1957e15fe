"""Synchronisation delay of a stage: from the end of its dependencies to its start."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import median

from runtime.weight_streaming.pipeline.layout import Layout
from runtime.weight_streaming.pipeline.progress import Stage

Done = tuple[Stage, int]
"""A stage and the index of the layer that it has finished."""


def sync_ms(layout: Layout, stage: Stage, since_ms: Callable[[Done, Done], float]) -> float:
    """Return the median delay over the streamed layers; 0 if no layer has the stage.

    `since_ms` returns the time from the end of its first argument to the start of its second, ms.
    """
    delays_ms = [
        min(since_ms(need, (stage, layer)) for need in needs)
        for layer, needs in _needs(layout, stage)
        if needs
    ]
    return max(0.0, median(delays_ms)) if delays_ms else 0.0


def _needs(layout: Layout, stage: Stage) -> Iterator[tuple[int, list[Done]]]:
    """Yield each streamed layer with the dependencies of its stage."""
    rings = {Stage.READ: layout.host, Stage.COPY: layout.device}
    if stage is Stage.KERNEL:
        arrives = Stage.READ if layout.device is None else Stage.COPY
        if rings[arrives] is None:
            return
        for layer in layout.streamed:
            before = [(Stage.KERNEL, layer - 1)] if layer else []
            yield layer, [(arrives, layer), *before]
        return
    ring = rings[stage]
    if ring is None:
        return
    leaves = Stage.COPY if stage is Stage.READ and layout.device is not None else Stage.KERNEL
    for ordinal, (layer, place) in enumerate(zip(layout.streamed, ring, strict=True)):
        needs: list[Done] = [(stage, layout.streamed[ordinal - 1])] if ordinal else []
        if stage is Stage.COPY and layout.host is not None:
            needs.append((Stage.READ, layer))
        if place.after is not None:
            needs.append((leaves, layout.streamed[place.after]))
        yield layer, needs
