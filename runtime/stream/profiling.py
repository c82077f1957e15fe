"""One profiling run: what the stages of each layer take beside each other."""

from __future__ import annotations

import time
from statistics import median

from torch import Tensor

from runtime.stream.layers import Layered
from runtime.stream.pipeline import Pipeline
from runtime.stream.progress import Stage
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
    layered: Layered,
    pipeline: Pipeline,
    reader: Reader,
    x: Tensor,
    *,
    repeats: int = 3,
    settle_s: float = 0.0,
) -> list[StreamedLayer]:
    """Each layer with the medians of its stages; the first run, which checks sums, is not timed.

    Stages count from when they could begin, so that reads and copies include their handover.

    Args:
      layered: the network.
      pipeline: of the profiling plan.
      reader: where its weights come from.
      x: an input.
      repeats: runs that are timed.
      settle_s: how long it runs before; a GPU that was idle is faster than it can stay.

    Raises:
      BaseException: as `Pipeline.run`.
    """
    settled_s = time.monotonic() + settle_s
    _run(pipeline, reader, x)
    while time.monotonic() < settled_s:
        _run(pipeline, reader, x)
    runs, late = [], []
    for _ in range(repeats):
        _run(pipeline, reader, x)
        runs.append(pipeline.times)
        late.append([pipeline.handover_ms(stage) for stage in Stage])
    reads_ms, copies_ms, kernels_ms = (median(one) for one in zip(*late, strict=True))
    found = []
    for i, layer in enumerate(layered.layers):
        own = [run[i] for run in runs]
        found.append(
            StreamedLayer(
                name=layer.name,
                weight_bytes=layer.nbytes,
                read_ms=reads_ms + median(one.read_ms for one in own),
                copy_ms=copies_ms + median(one.copy_ms for one in own),
                kernel_ms=median(one.kernel_ms for one in own),
                handover_ms=kernels_ms,
            )
        )
    return found


def _run(pipeline: Pipeline, reader: Reader, x: Tensor) -> None:
    reader.start_cold()
    pipeline.run(x)
