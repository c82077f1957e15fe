"""Better plans in the neighbourhood of good ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from runtime.weight_streaming.planning.plan import Stages, StreamedLayer, StreamPlan, pareto_front
from runtime.weight_streaming.planning.recurrence import timeline
from runtime.weight_streaming.planning.ring import PAGE_BYTES
from runtime.weight_streaming.planning.ring_sizing import RingSizing

_MOST = 12
"""Layers that are tried around one plan, of those in memory and of those that are not."""
_SWAPPED = 4
"""Layers of each that are tried in each other's place."""


def improved(
    best: Sequence[StreamPlan],
    layers: Sequence[StreamedLayer],
    stages: Stages,
    *,
    tries: int,
    alignment: int = PAGE_BYTES,
    ahead: bool,
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
        found: list[StreamPlan] = []
        for one in fresh:
            seen.add(one)
            later = (other.memory_bytes for other in front)
            next_bytes = next((size for size in later if size > one.memory_bytes), 0)
            around = [*_around(one, next_bytes - 1, layers, stages, alignment, ahead=ahead)]
            found += around
            tries -= len(around)
            if tries <= 0:
                break
        front = pareto_front([*front, *found])
    return front


def _around(
    plan: StreamPlan,
    most_bytes: int,
    layers: Sequence[StreamedLayer],
    stages: Stages,
    alignment: int,
    *,
    ahead: bool,
) -> Iterator[StreamPlan]:
    """With no more memory than the plan, and with what is left up to the next one."""
    for changed in _changes(plan, layers, alignment):
        kept = [one != (i in changed) for i, one in enumerate(plan.resident)]
        if all(stays or not one.weight_bytes for one, stays in zip(layers, kept, strict=True)):
            continue
        trial = RingSizing(layers, tuple(kept), stages, alignment, ahead=ahead)
        if changed:
            yield from trial.filling(plan.memory_bytes, plan)
        if most_bytes > plan.memory_bytes:
            yield from trial.filling(most_bytes, plan)


def _changes(
    plan: StreamPlan, layers: Sequence[StreamedLayer], alignment: int
) -> list[tuple[int, ...]]:
    """Layers that come into memory or leave it: those before which kernels wait most, or least."""
    waits_ms = timeline(layers, plan, alignment).stall_ms
    most = sorted(
        (i for i, layer in enumerate(layers) if layer.weight_bytes),
        key=lambda i: -waits_ms[i],
    )
    come = [i for i in most if not plan.resident[i]][:_MOST]
    leave = [i for i in most[::-1] if plan.resident[i]][:_MOST]
    return [
        (),
        *((i,) for i in come + leave),
        *product(come[:_SWAPPED], leave[:_SWAPPED]),
    ]
