"""Better plans in the neighbourhood of good ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from runtime.stream.pareto import pareto
from runtime.stream.recurrence import timeline
from runtime.stream.ring import PAGE_BYTES
from runtime.stream.stages import Stages, StreamedLayer, StreamPlan
from runtime.stream.trial import Trial

_MOST = 12
"""Layers that are tried around one plan, of those in memory and of those that are not."""


def improved(
    best: Sequence[StreamPlan],
    layers: Sequence[StreamedLayer],
    stages: Stages,
    *,
    tries: int,
    alignment: int = PAGE_BYTES,
) -> list[StreamPlan]:
    """A front with what one layer more or less in memory, with other rings, adds to it.

    What enters the front is looked around in turn, until nothing does or so many plans were tried.
    """
    front = [*best]
    seen: set[StreamPlan] = set()
    while tries > 0:
        fresh = [one for one in front if one not in seen]
        if not fresh:
            break
        seen.update(fresh)
        found: list[StreamPlan] = []
        for one in fresh:
            later = (other.memory_bytes for other in front)
            next_bytes = next((size for size in later if size > one.memory_bytes), 0)
            around = [*_around(one, next_bytes - 1, layers, stages, alignment)]
            found += around
            tries -= len(around)
        front = pareto([*front, *found])
    return front


def _around(
    plan: StreamPlan,
    most_bytes: int,
    layers: Sequence[StreamedLayer],
    stages: Stages,
    alignment: int,
) -> Iterator[StreamPlan]:
    """With no more memory than the plan, and with what is left up to the next one."""
    for i in [None, *_promising(plan, layers, alignment)]:
        kept = [one != (j == i) for j, one in enumerate(plan.resident)]
        if all(stays or not one.weight_bytes for one, stays in zip(layers, kept, strict=True)):
            continue
        trial = Trial(layers, tuple(kept), stages, alignment)
        if i is not None:
            yield from trial.filling(plan.memory_bytes, plan)
        if most_bytes > plan.memory_bytes:
            yield from trial.filling(most_bytes, plan)


def _promising(plan: StreamPlan, layers: Sequence[StreamedLayer], alignment: int) -> list[int]:
    """Layers that are or are not in memory, perhaps wrongly: where kernels wait most, or not."""
    waits_ms = timeline(layers, plan, alignment).stall_ms
    most = sorted(
        (i for i, layer in enumerate(layers) if layer.weight_bytes),
        key=lambda i: -waits_ms[i],
    )
    streamed = [i for i in most if not plan.resident[i]]
    resident = [i for i in most[::-1] if plan.resident[i]]
    return streamed[:_MOST] + resident[:_MOST]
