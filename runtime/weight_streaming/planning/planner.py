"""Which layers stay in memory and how large the rings are: memory against delay."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from runtime.weight_streaming.planning.architectures import preloaded
from runtime.weight_streaming.planning.local_search import improved
from runtime.weight_streaming.planning.plan import Stages, StreamedLayer, StreamPlan, pareto_front
from runtime.weight_streaming.planning.residency import candidates, smallest
from runtime.weight_streaming.planning.ring import PAGE_BYTES, aligned
from runtime.weight_streaming.planning.ring_sizing import RingSizing

_LAYER_STEPS = 60_000
"""Layers times inferences that are predicted in the search around the best."""

_IN_A_ROW = 3
"""Inferences that it takes about to predict one in a row."""


class BudgetTooSmallError(ValueError):
    """No plan fits; the message and `smallest_bytes` say what would."""

    def __init__(self, budget_bytes: int, smallest_bytes: int, largest: StreamedLayer) -> None:
        super().__init__(
            f"a budget of {budget_bytes} bytes is too small: the smallest workable one is "
            f"{smallest_bytes} bytes; the largest layer, {largest.name}, has "
            f"{largest.weight_bytes}"
        )
        self.smallest_bytes = smallest_bytes


def plan(
    layers: Sequence[StreamedLayer],
    budget_bytes: int,
    *,
    stages: Stages = Stages.READ_KERNEL,
    tolerance: float = 0.0,
    alignment: int = PAGE_BYTES,
    ahead: bool = True,
) -> StreamPlan:
    """The fastest plan found within a budget; more bytes never make it slower.

    Args:
      layers: the network, with the times of one profiling run.
      budget_bytes: for residents and rings together.
      stages: what happens to the weights.
      tolerance: the smallest plan is taken that is at most this share slower than the fastest.
      alignment: of the rings.
      ahead: whether its rings go on into the next inference; fastest is then of many in a row.

    Raises:
      BudgetTooSmallError: if nothing fits.
    """
    affordable = [
        one
        for one in front(layers, stages=stages, alignment=alignment, ahead=ahead)
        if one.memory_bytes <= budget_bytes
    ]
    if not affordable:
        largest = max(layers, key=lambda layer: layer.weight_bytes)
        raise BudgetTooSmallError(
            budget_bytes, smallest_budget(layers, stages=stages, alignment=alignment), largest
        )
    limit_ms = affordable[-1].predicted_ms * (1 + tolerance)
    return next(one for one in affordable if one.predicted_ms <= limit_ms)


def smallest_budget(
    layers: Sequence[StreamedLayer],
    *,
    stages: Stages = Stages.READ_KERNEL,
    alignment: int = PAGE_BYTES,
) -> int:
    """The bytes below which no plan works.

    With one ring, that of the largest layer. Of two rings each would need its size, so that it can
    take less to keep the largest layers in memory and stream only smaller ones; or to keep all.
    """
    resident = smallest(layers, stages, alignment)
    kept = sum(one.weight_bytes for one, stays in zip(layers, resident, strict=True) if stays)
    streamed = [one.weight_bytes for one, stays in zip(layers, resident, strict=True) if not stays]
    ring = aligned(max(streamed, default=0), alignment)
    return kept + ring * (stages.reads + stages.copies)


def front(
    layers: Sequence[StreamedLayer],
    *,
    stages: Stages = Stages.READ_KERNEL,
    alignment: int = PAGE_BYTES,
    ahead: bool = True,
) -> list[StreamPlan]:
    """Plans of which none needs less memory and less time than another, by rising memory.

    The first needs the least memory there is; the last is preloading, or a plan as fast with less.
    Time is that of many in a row, or, without `ahead`, from empty rings.
    """
    best = [preloaded(layers)]
    for resident in candidates(layers, stages, alignment):
        trial = RingSizing(layers, resident, stages, alignment, ahead=ahead)
        if not any(
            one.memory_bytes <= trial.smallest_bytes and one.predicted_ms <= trial.bound_ms
            for one in best
        ):
            best = pareto_front([*best, *trial.growing()])
    tries = _LAYER_STEPS // max(1, len(layers)) // (_IN_A_ROW if ahead else 1)
    return improved(best, layers, stages, tries=tries, alignment=alignment, ahead=ahead)


def exhaustive_front(
    layers: Sequence[StreamedLayer],
    *,
    stages: Stages = Stages.READ_KERNEL,
    alignment: int = PAGE_BYTES,
    ahead: bool = True,
) -> list[StreamPlan]:
    """What `runtime.weight_streaming.planning.planner.front` looks for: every set of residents, every size of ring.

    A network of n layers with weights has 2 ** n sets of residents, each up to n * (n + 1) / 2
    sizes of a ring that matter, and their square where there are two rings.
    """
    return pareto_front(_all(layers, stages, alignment, ahead=ahead))


def _all(
    layers: Sequence[StreamedLayer], stages: Stages, alignment: int, *, ahead: bool
) -> Iterator[StreamPlan]:
    yield preloaded(layers)
    for resident in product((False, True), repeat=len(layers)):
        if any(one.weight_bytes and not kept for one, kept in zip(layers, resident, strict=True)):
            trial = RingSizing(layers, resident, stages, alignment, ahead=ahead)
            two = stages is Stages.READ_COPY_KERNEL
            sizes = trial.sizes.all()
            for host, device in product(sizes, sizes if two else [0]):
                yield trial.plan(host or device, device or host)
