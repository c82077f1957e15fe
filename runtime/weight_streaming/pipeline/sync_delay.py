"""How long a stage waits after all that it waits for has ended: threads that wake, events that pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import median

from runtime.weight_streaming.pipeline.layout import Layout
from runtime.weight_streaming.pipeline.progress import Stage

Done = tuple[Stage, int]
"""A stage, and the layer of the network with which it is done."""


def sync_ms(layout: Layout, stage: Stage, since_ms: Callable[[Done, Done], float]) -> float:
    """The median over the streamed layers; 0 where no layer has the stage.

    Args:
      layout: of a pipeline in which stages do not step together.
      stage: the one that begins.
      since_ms: from the end of the first to the begin of the second, in milliseconds.
    """
    waited_ms = [
        min(since_ms(need, (stage, layer)) for need in needs)
        for layer, needs in _needs(layout, stage)
        if needs
    ]
    return max(0.0, median(waited_ms)) if waited_ms else 0.0


def _needs(layout: Layout, stage: Stage) -> Iterator[tuple[int, list[Done]]]:
    """What must have ended before a streamed layer's stage begins, layer by layer."""
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
