"""Bundles: consecutive layers that are read, copied and waited for together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from edgenas_runtime.weight_streaming.planning.plan import StreamedLayer

_SHARES = 4, 2, 1
"""Denominators of the largest layer's share that bundles may be as large as."""


def bundles(sizes: Sequence[int], resident: Sequence[bool], bundle_bytes: int) -> Iterator[range]:
    """Yield runs of streamed layers of at most `bundle_bytes`; other layers are alone."""
    begin = total = 0
    for i, (nbytes, stays) in enumerate(zip(sizes, resident, strict=True)):
        alone = stays or not nbytes
        if i > begin and (alone or not total or total + nbytes > bundle_bytes):
            yield range(begin, i)
            begin, total = i, 0
        total += 0 if alone else nbytes
    if sizes:
        yield range(begin, len(sizes))


def bundled(
    layers: Sequence[StreamedLayer], resident: Sequence[bool], bundle_bytes: int
) -> tuple[list[StreamedLayer], list[bool]]:
    """Return the bundles as layers, and which of them are resident."""
    runs = [*bundles([layer.weight_bytes for layer in layers], resident, bundle_bytes)]
    return [_merged(layers[run.start : run.stop]) for run in runs], [
        resident[run.start] for run in runs
    ]


def bundle_sizes(layers: Sequence[StreamedLayer]) -> list[int]:
    """Return the sizes of bundles to try; only 0, none, if there is nothing to save."""
    if not any(layer.read_start_ms + layer.copy_start_ms + layer.sync_ms for layer in layers):
        return [0]
    largest = max(layer.weight_bytes for layer in layers)
    return [0, *(largest // share for share in _SHARES)]


def _merged(layers: Sequence[StreamedLayer]) -> StreamedLayer:
    first, *others = layers
    if not others:
        return first
    return replace(
        first,
        weight_bytes=sum(layer.weight_bytes for layer in layers),
        read_ms=first.read_ms + sum(layer.read_ms - layer.read_start_ms for layer in others),
        copy_ms=first.copy_ms + sum(layer.copy_ms - layer.copy_start_ms for layer in others),
        kernel_ms=sum(layer.kernel_ms for layer in layers),
    )
