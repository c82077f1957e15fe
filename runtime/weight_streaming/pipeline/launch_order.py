"""In which order one thread launches copies and kernels on a GPU that works them off by itself."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from runtime.weight_streaming.pipeline.layout import Layout
from runtime.weight_streaming.pipeline.progress import Stage

_COPIES_EACH = 2
"""Launched before the kernels of one layer."""


def launch_order(layout: Layout, layers: int, begun: int = 0) -> Iterator[tuple[Stage, int]]:
    """COPY with the number of a streamed layer, KERNEL with that of a layer of the network.

    What waits comes after what it waits for: kernels after their copy, a copy after the kernels
    that use its bytes last. Where nothing is read, copies are launched ahead of their layers, for a
    GPU copies small layers faster than one each is launched; but not many at once, for the next
    kernels wait for their launch meanwhile. If the layout is ahead, those that the next inference begins
    with follow, numbered on from the last.

    Args:
      layout: of the network.
      layers: all of it.
      begun: copies that the inference before has launched.
    """
    copies = begun
    for layer in range(layers):
        own = bisect_right(layout.streamed, layer)
        ahead = max(own, copies)
        if layout.host is None and layout.device is not None:
            ahead = max(ahead, min(copies + _COPIES_EACH, _free(layout, copies, layer)))
        for ordinal in range(copies, ahead):
            yield Stage.COPY, ordinal
        copies = ahead
        yield Stage.KERNEL, layer
    if layout.host is None and layout.device is not None:
        for ordinal in range(copies, _free(layout, copies, layers)):
            yield Stage.COPY, ordinal


def _free(layout: Layout, copies: int, layer: int) -> int:
    """How many copies wait for no kernels but those of earlier layers."""
    assert layout.device is not None
    count = len(layout.device)
    end = count + layout.prefetched_layers
    for ordinal in range(copies, end):
        waits_for = kernels_before(layout, ordinal)
        if waits_for is not None and waits_for >= layer:
            return ordinal
    return end


def kernels_before(layout: Layout, ordinal: int) -> int | None:
    """The layer of this inference whose kernels end before a copy begins; None if it need not wait.

    Copies are numbered as `launch_order` does it, on into the next inference.
    """
    assert layout.device is not None
    count = len(layout.device)
    after = layout.device[ordinal % count].after
    if after is None or (after < 0 and ordinal < count):
        return None
    return layout.streamed[after]
