"""Order in which one thread launches asynchronous copies and kernels on a GPU."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from runtime.weight_streaming.pipeline.layout import RingLayout
from runtime.weight_streaming.pipeline.progress import StreamStage

_COPIES_PER_LAYER = 2
"""Maximum number of copies launched in advance before the kernels of one layer."""


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
        own = bisect_right(layout.streamed, layer)
        ahead = max(own, copies)
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
