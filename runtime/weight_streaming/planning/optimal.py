"""The best plans there are, by trying all; for a handful of layers only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from runtime.weight_streaming.planning.architectures import preloaded
from runtime.weight_streaming.planning.pareto import pareto
from runtime.weight_streaming.planning.ring import PAGE_BYTES
from runtime.weight_streaming.planning.stages import Stages, StreamedLayer, StreamPlan
from runtime.weight_streaming.planning.trial import Trial


def optimal_front(
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
    return pareto(_all(layers, stages, alignment, ahead=ahead))


def _all(
    layers: Sequence[StreamedLayer], stages: Stages, alignment: int, *, ahead: bool
) -> Iterator[StreamPlan]:
    yield preloaded(layers)
    for resident in product((False, True), repeat=len(layers)):
        if any(one.weight_bytes and not kept for one, kept in zip(layers, resident, strict=True)):
            trial = Trial(layers, resident, stages, alignment, ahead=ahead)
            two = stages is Stages.READ_COPY_KERNEL
            sizes = trial.sizes.all()
            for host, device in product(sizes, sizes if two else [0]):
                yield trial.plan(host or device, device or host)
