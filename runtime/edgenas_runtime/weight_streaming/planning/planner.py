"""Planner: resident layers and ring sizes, as a Pareto front of memory and delay.

Candidates are sets of resident layers; a local search goes on around the plans of the front.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product

from edgenas_runtime.weight_streaming.planning.bundles import bundle_sizes, bundles
from edgenas_runtime.weight_streaming.planning.plan import (
    StreamedLayer,
    StreamPlan,
    StreamStages,
    pareto_front,
)
from edgenas_runtime.weight_streaming.planning.recurrence import predicted, timeline
from edgenas_runtime.weight_streaming.planning.ring import PAGE_BYTES, aligned
from edgenas_runtime.weight_streaming.planning.ring_sizing import RingSizing


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


_LAYER_STEPS = 60_000
"""Budget of the local search: layers times predicted inferences."""

_STEADY_STATE_STEPS = 3
"""Approximate number of inferences predicted to reach the steady state."""


class BudgetTooSmallError(ValueError):
    """No plan fits the budget; `smallest_bytes` is the smallest budget that works."""

    def __init__(self, budget_bytes: int, smallest_bytes: int, largest: StreamedLayer) -> None:
        super().__init__(
            f"a budget of {budget_bytes} bytes is too small; the smallest that works is "
            f"{smallest_bytes} bytes (the largest layer, {largest.name}, has "
            f"{largest.weight_bytes})"
        )
        self.smallest_bytes = smallest_bytes


def preloaded(layers: Sequence[StreamedLayer]) -> StreamPlan:
    """All layers resident, weights counted once; the paper also counts a copy in host memory."""
    plan = StreamPlan((True,) * len(layers), 0, 0, 0.0, total_bytes(layers))
    return predicted(layers, plan)


def total_bytes(layers: Sequence[StreamedLayer]) -> int:
    """Bytes of all weights, counted once."""
    return sum(layer.weight_bytes for layer in layers)


def plans(
    layers: Sequence[StreamedLayer],
    budget_bytes: int,
    *,
    stages: StreamStages = StreamStages.READ_KERNEL,
    alignment: int = PAGE_BYTES,
    ahead: bool = True,
) -> list[StreamPlan]:
    """Return the fastest plan found within a budget for each size of bundles, the fastest first.

    A larger budget is never slower. The budget counts resident layers and rings together; with `ahead` the
    delay is that of the steady state.

    Raises:
      BudgetTooSmallError: if no plan fits.
    """
    affordable = [
        fast
        for fast in front(layers, stages=stages, alignment=alignment, ahead=ahead)
        if fast.memory_bytes <= budget_bytes
    ]
    if not affordable:
        largest = max(layers, key=lambda layer: layer.weight_bytes)
        raise BudgetTooSmallError(
            budget_bytes, smallest_budget(layers, stages=stages, alignment=alignment), largest
        )
    by_bundle: dict[int, StreamPlan] = {}
    for fast in affordable[::-1]:
        by_bundle.setdefault(fast.bundle_bytes, fast)
    return [*by_bundle.values()]


def smallest_budget(
    layers: Sequence[StreamedLayer],
    *,
    stages: StreamStages = StreamStages.READ_KERNEL,
    alignment: int = PAGE_BYTES,
) -> int:
    """Return the smallest budget for which there is a plan.

    With one ring it is the largest layer. With two rings, each as large as the largest streamed layer,
    it can be less to keep the largest layers resident and stream only smaller ones, or to keep all.
    """
    resident = smallest(layers, stages, alignment)
    kept = sum(layer.weight_bytes for layer, stays in zip(layers, resident, strict=True) if stays)
    streamed = [
        layer.weight_bytes for layer, stays in zip(layers, resident, strict=True) if not stays
    ]
    ring = aligned(max(streamed, default=0), alignment)
    return kept + ring * (stages.reads + stages.copies)


def front(
    layers: Sequence[StreamedLayer],
    *,
    stages: StreamStages = StreamStages.READ_KERNEL,
    alignment: int = PAGE_BYTES,
    ahead: bool = True,
) -> list[StreamPlan]:
    """Return the Pareto front of memory and delay, sorted by memory.

    The first plan needs the smallest budget; the last is as fast as preloading. The delay is the steady
    state's if `ahead`, else that of an inference with empty rings.
    """
    best = [preloaded(layers)]
    for resident, bundle_bytes in product(
        candidates(layers, stages, alignment), bundle_sizes(layers)[-2:]
    ):
        trial = RingSizing(
            layers, resident, stages, alignment, ahead=ahead, bundle_bytes=bundle_bytes
        )
        if not any(
            rival.memory_bytes <= trial.smallest_bytes and rival.predicted_ms <= trial.bound_ms
            for rival in best
        ):
            best = pareto_front([*best, *trial.growing()])
    tries = _LAYER_STEPS // max(1, len(layers)) // (_STEADY_STATE_STEPS if ahead else 1)
    return local_search(best, layers, stages, tries=tries, alignment=alignment, ahead=ahead)
