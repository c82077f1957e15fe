"""Which layers stay in memory, if some may: orders from which a planner takes the first few."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from runtime.weight_streaming.planning.plan import Stages, StreamedLayer
from runtime.weight_streaming.planning.ring import PAGE_BYTES, aligned


def candidates(
    layers: Sequence[StreamedLayer], stages: Stages, alignment: int = PAGE_BYTES
) -> Iterator[tuple[bool, ...]]:
    """Sets of residents that are worth a try, none of them twice, and never all with weights.

    The one that needs the least memory is among them, if it is not all.
    """
    with_weights = [i for i, layer in enumerate(layers) if layer.weight_bytes]
    seen: set[frozenset[int]] = set()
    least = [i for i, stays in enumerate(smallest(layers, stages, alignment)) if stays]
    for order in (iter([least]), *_orders(layers, with_weights, stages)):
        for chosen in order:
            one = frozenset(chosen)
            if one not in seen and len(one) < len(with_weights):
                seen.add(one)
                yield tuple(i in one for i in range(len(layers)))


def smallest(
    layers: Sequence[StreamedLayer], stages: Stages, alignment: int = PAGE_BYTES
) -> tuple[bool, ...]:
    """The residents with which rings and residents together are least.

    Rings are as large as the largest layer that streams, so it is the largest that stay, if any.
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
    """So many of `count` evenly spaced, the first always, the last only if all are.

    A resident layer gives the next ones the time of its kernel, and only those: so they are spread.
    """
    return [i * count // kept for i in range(kept)]


def _orders(
    layers: Sequence[StreamedLayer], with_weights: Sequence[int], stages: Stages
) -> Iterator[Iterator[list[int]]]:
    count = len(with_weights)
    levels = _levels(count)
    yield ([with_weights[i] for i in interleaved(count, kept)] for kept in levels)
    # in a row an inference has no beginning: the same turned round
    yield ([with_weights[-1 - i] for i in interleaved(count, kept)] for kept in levels)
    yield ([*with_weights[:kept]] for kept in levels)

    def late(i: int) -> float:
        """How much longer a layer comes than it is used, a byte."""
        layer = layers[i]
        load_ms = max(stages.reads * layer.read_ms, stages.copies * layer.copy_ms)
        return (layer.kernel_ms - load_ms) / layer.weight_bytes

    latest = sorted(with_weights, key=late)
    yield (latest[:kept] for kept in levels)
    largest = sorted(with_weights, key=lambda i: -layers[i].weight_bytes)
    yield (largest[:kept] for kept in levels)
    smallest = largest[::-1]
    yield (smallest[:kept] for kept in levels)


def _levels(count: int) -> list[int]:
    """0, 1, 2, 3 ... growing by half, up to all but one."""
    levels = [0]
    while levels[-1] < count - 1:
        levels.append(min(count - 1, max(levels[-1] + 1, levels[-1] * 3 // 2)))
    return levels
