"""One profiling run: what the stages of each layer take beside each other."""

from __future__ import annotations

from statistics import median

from torch import Tensor

from runtime.stream.layers import Layered
from runtime.stream.pipeline import Pipeline
from runtime.stream.readers import Reader
from runtime.stream.ring import PAGE_BYTES
from runtime.stream.stages import Architecture, Stages, StreamedLayer, StreamPlan


def unmeasured(layered: Layered) -> list[StreamedLayer]:
    """The layers without their times: enough for what depends on bytes alone."""
    return [StreamedLayer(one.name, one.nbytes, 0.0, 0.0, 0.0) for one in layered.layers]


def profiling_plan(layered: Layered, stages: Stages, budget_bytes: int) -> StreamPlan:
    """Nothing resident, and rings in which stages overlap, as far as the budget allows.

    What a stage takes beside the others is more than what it takes alone.
    """
    enough = 3 * layered.largest_bytes
    share = budget_bytes // (stages.reads + stages.copies) // PAGE_BYTES * PAGE_BYTES
    ring = max(layered.largest_bytes, min(share, enough))
    host, device = ring * stages.reads, ring * stages.copies
    return StreamPlan(
        Architecture.ASYNCHRONOUS,
        (False,) * len(layered.layers),
        host,
        device,
        0.0,
        host + device,
    )


def profiled(
    layered: Layered, pipeline: Pipeline, reader: Reader, x: Tensor, *, repeats: int = 3
) -> list[StreamedLayer]:
    """Each layer with the medians of its stages; the first run, which checks sums, is not timed.

    Raises:
      BaseException: as `Pipeline.run`.
    """
    runs = []
    for _ in range(1 + repeats):
        reader.start_cold()
        pipeline.run(x)
        runs.append(pipeline.times)
    found = []
    for i, layer in enumerate(layered.layers):
        own = [run[i] for run in runs[1:]]
        found.append(
            StreamedLayer(
                name=layer.name,
                weight_bytes=layer.nbytes,
                read_ms=median(one.read_ms for one in own),
                copy_ms=median(one.copy_ms for one in own),
                kernel_ms=median(one.kernel_ms for one in own),
            )
        )
    return found
