"""Local search around the plans of a Pareto front."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from edgenas_runtime.weight_streaming.planning.bundles import bundle_sizes, bundles
from edgenas_runtime.weight_streaming.planning.plan import (
    StreamedLayer,
    StreamPlan,
    StreamStages,
    pareto_front,
)
from edgenas_runtime.weight_streaming.planning.recurrence import timeline
from edgenas_runtime.weight_streaming.planning.ring import PAGE_BYTES
from edgenas_runtime.weight_streaming.planning.ring_sizing import RingSizing

_MOVED = 12
"""Resident layers, and streamed layers, that are moved around one plan."""
_SWAPPED = 4
"""Resident and streamed layers that are swapped pairwise."""


def local_search(
    best: Sequence[StreamPlan],
    layers: Sequence[StreamedLayer],
    stages: StreamStages,
    *,
    tries: int,
    alignment: int = PAGE_BYTES,
    ahead: bool,
) -> list[StreamPlan]:
    """Improve a Pareto front by single moves and swaps of resident layers, with new ring sizes.

    Plans that enter the front are searched around as well, until none does or `tries` plans were
    predicted.
    """
    front = [*best]
    seen: set[StreamPlan] = set()
    while tries > 0:
        fresh = [plan for plan in front if plan not in seen]
        if not fresh:
            break
        tried: list[StreamPlan] = []
        for plan in fresh:
            seen.add(plan)
            later = (other.memory_bytes for other in front)
            next_bytes = next((size for size in later if size > plan.memory_bytes), 0)
            around = [*_around(plan, next_bytes - 1, layers, stages, alignment, ahead=ahead)]
            tried += around
            tries -= len(around)
            if tries <= 0:
                break
        front = pareto_front([*front, *tried])
    return front


def _around(
    plan: StreamPlan,
    most_bytes: int,
    layers: Sequence[StreamedLayer],
    stages: StreamStages,
    alignment: int,
    *,
    ahead: bool,
) -> Iterator[StreamPlan]:
    """Yield neighbours with the plan's memory, and with the memory up to the next plan."""
    for changed in _changes(plan, layers, alignment):
        kept = [stays != (i in changed) for i, stays in enumerate(plan.resident)]
        if all(stays or not layer.weight_bytes for layer, stays in zip(layers, kept, strict=True)):
            continue
        for bundle_bytes in (plan.bundle_bytes,) if changed else bundle_sizes(layers):
            trial = RingSizing(
                layers, tuple(kept), stages, alignment, ahead=ahead, bundle_bytes=bundle_bytes
            )
            if changed or bundle_bytes != plan.bundle_bytes:
                yield from trial.filling(plan.memory_bytes, plan)
            if most_bytes > plan.memory_bytes:
                yield from trial.filling(most_bytes, plan)


def _changes(
    plan: StreamPlan, layers: Sequence[StreamedLayer], alignment: int
) -> list[tuple[int, ...]]:
    """Return sets of layers to move: those whose kernels wait most become resident, least streamed."""
    runs = bundles([layer.weight_bytes for layer in layers], plan.resident, plan.bundle_bytes)
    stalls_ms = zip(runs, timeline(layers, plan, alignment).stall_ms, strict=True)
    waits_ms = [stall_ms for run, stall_ms in stalls_ms for _ in run]
    most = sorted(
        (i for i, layer in enumerate(layers) if layer.weight_bytes),
        key=lambda i: -waits_ms[i],
    )
    come = [i for i in most if not plan.resident[i]][:_MOVED]
    leave = [i for i in most[::-1] if plan.resident[i]][:_MOVED]
    return [
        (),
        *((i,) for i in come + leave),
        *product(come[:_SWAPPED], leave[:_SWAPPED]),
    ]
