"""Planner: resident layers and ring sizes, as a Pareto front of memory and delay."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from edgenas_runtime.weight_streaming.planning.bundles import bundle_sizes
from edgenas_runtime.weight_streaming.planning.local_search import local_search
from edgenas_runtime.weight_streaming.planning.plan import (
    StreamedLayer,
    StreamPlan,
    StreamStages,
    pareto_front,
)
from edgenas_runtime.weight_streaming.planning.recurrence import predicted
from edgenas_runtime.weight_streaming.planning.residency import candidates, smallest
from edgenas_runtime.weight_streaming.planning.ring import PAGE_BYTES, aligned
from edgenas_runtime.weight_streaming.planning.ring_sizing import RingSizing

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
