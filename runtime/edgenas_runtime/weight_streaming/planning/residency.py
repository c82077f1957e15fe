"""Candidate sets of resident layers for the planner."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from edgenas_runtime.weight_streaming.planning.plan import StreamedLayer, StreamStages
from edgenas_runtime.weight_streaming.planning.ring import PAGE_BYTES, aligned


def candidates(
    layers: Sequence[StreamedLayer], stages: StreamStages, alignment: int = PAGE_BYTES
) -> Iterator[tuple[bool, ...]]:
    """Yield distinct sets of resident layers to try, except the set of all layers with weights.

    The set with the smallest budget is among them, unless it is the set of all.
    """
    with_weights = [i for i, layer in enumerate(layers) if layer.weight_bytes]
    seen: set[frozenset[int]] = set()
    least = [i for i, stays in enumerate(smallest(layers, stages, alignment)) if stays]
    for order in (iter([least]), *_orders(layers, with_weights, stages)):
        for chosen in order:
            kept = frozenset(chosen)
            if kept not in seen and len(kept) < len(with_weights):
                seen.add(kept)
                yield tuple(i in kept for i in range(len(layers)))


def smallest(
    layers: Sequence[StreamedLayer], stages: StreamStages, alignment: int = PAGE_BYTES
) -> tuple[bool, ...]:
    """Return the resident layers that minimise the memory of resident layers and rings together.

    Rings are as large as the largest streamed layer, so the resident layers are the largest ones.
    """
    rings = stages.reads + stages.copies
    largest = sorted(
        (i for i, layer in enumerate(layers) if layer.weight_bytes),
        key=lambda i: -layers[i].weight_bytes,
    )
    least_bytes, stay, kept_bytes = math.inf, 0, 0
    for count, i in enumerate(largest):
        need = kept_bytes + aligned(layers[i].weight_bytes, alignment) * rings
        if need < least_bytes:
            least_bytes, stay = need, count
        kept_bytes += layers[i].weight_bytes
    if kept_bytes <= least_bytes:
        stay = len(largest)
    chosen = {*largest[:stay]}
    return tuple(i in chosen for i in range(len(layers)))


def interleaved(count: int, kept: int) -> list[int]:
    """Return `kept` evenly spaced indices below `count`: always the first, the last only if all.

    Resident layers are spread because the kernel of each gives the following layers time to arrive.
    """
    return [i * count // kept for i in range(kept)]


def _orders(
    layers: Sequence[StreamedLayer], with_weights: Sequence[int], stages: StreamStages
) -> Iterator[Iterator[list[int]]]:
    count = len(with_weights)
    levels = _levels(count)
    yield ([with_weights[i] for i in interleaved(count, kept)] for kept in levels)
    # reversed: in the steady state an inference has no beginning
    yield ([with_weights[-1 - i] for i in interleaved(count, kept)] for kept in levels)
    yield ([*with_weights[:kept]] for kept in levels)

    def slack(i: int) -> float:
        """Return the slack per byte: kernel time minus the time to bring the weights."""
        layer = layers[i]
        load_ms = max(stages.reads * layer.read_ms, stages.copies * layer.copy_ms)
        return (layer.kernel_ms - load_ms) / layer.weight_bytes

    latest = sorted(with_weights, key=slack)
    yield (latest[:kept] for kept in levels)
    largest = sorted(with_weights, key=lambda i: -layers[i].weight_bytes)
    yield (largest[:kept] for kept in levels)
    yield (largest[::-1][:kept] for kept in levels)


def _levels(count: int) -> list[int]:
    """Return 0, 1, 2, 3 ... growing by half, up to count - 1."""
    levels = [0]
    while levels[-1] < count - 1:
        levels.append(min(count - 1, max(levels[-1] + 1, levels[-1] * 3 // 2)))
    return levels
