"""One profiling run: what the stages of each layer take beside each other."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from statistics import median

from torch import Tensor

from runtime.weight_streaming.files.layers import LayeredNetwork
from runtime.weight_streaming.files.readers import Reader
from runtime.weight_streaming.pipeline.pipeline import LayerTimes, Pipeline
from runtime.weight_streaming.pipeline.progress import Stage
from runtime.weight_streaming.planning.plan import Architecture, Stages, StreamedLayer, StreamPlan
from runtime.weight_streaming.planning.ring import PAGE_BYTES

_MOST_TIMES = 64
"""That a layer's kernels are run to keep a GPU busy."""

_BUSY = 3
"""How much longer than before the other times a GPU works before those of its kernels are believed."""


def unmeasured(layered: LayeredNetwork) -> list[StreamedLayer]:
    """The layers without their times: enough for what depends on bytes alone."""
    return [StreamedLayer(one.name, one.nbytes, 0.0, 0.0, 0.0) for one in layered.layers]


def profiling_plan(layered: LayeredNetwork, stages: Stages, budget_bytes: int) -> StreamPlan:
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
    layered: LayeredNetwork,
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
      settle_s: how long a GPU works before its times are believed. Its kernels are then timed once more
        while they run one after another, each many times, for the more of the time they wait, the
        higher is the clock that its power allows; and the longer time counts, for one that runs again
        at once may find its weights in a cache.

    Raises:
      BaseException: as `Pipeline.run`.
    """

    def measured(before_s: float, repeats: int) -> tuple[list[LayerTimes], list[float]]:
        """The medians of each layer, and how late each stage began."""
        settled_s = time.monotonic() + before_s
        _run(pipeline, reader, x)
        while time.monotonic() < settled_s:
            _run(pipeline, reader, x)
        runs, late = [], []
        for _ in range(repeats):
            _run(pipeline, reader, x)
            runs.append(pipeline.times)
            late.append([pipeline.sync_ms(stage) for stage in Stage])
        layers = [_medians(own) for own in zip(*runs, strict=True)]
        return layers, [float(median(one)) for one in zip(*late, strict=True)]

    streamed, (reads_ms, copies_ms, kernels_ms) = measured(settle_s, repeats)
    busy = streamed
    if settle_s:
        pipeline.repeat_kernels(_enough(streamed))
        is_read = any(one.read_ms for one in streamed)  # slowly, so that a run is a long one
        busy, _ = measured(_BUSY * settle_s, min(2, repeats) if is_read else repeats)
    return [
        StreamedLayer(
            name=layer.name,
            weight_bytes=layer.nbytes,
            read_ms=reads_ms + one.read_ms,
            copy_ms=copies_ms + one.copy_ms,
            kernel_ms=max(one.kernel_ms, at_work.kernel_ms),
            sync_ms=kernels_ms,
        )
        for layer, one, at_work in zip(layered.layers, streamed, busy, strict=True)
    ]


def _enough(layers: Sequence[LayerTimes]) -> int:
    """How often kernels have to run each so that weights come in no more than half their time."""
    comes_ms = max(sum(one.read_ms for one in layers), sum(one.copy_ms for one in layers))
    kernels_ms = sum(one.kernel_ms for one in layers)
    return min(_MOST_TIMES, 1 + math.ceil(2 * comes_ms / kernels_ms)) if kernels_ms else 1


def _medians(own: Sequence[LayerTimes]) -> LayerTimes:
    """Of one layer, over runs; plain numbers, whatever clock they come from."""
    return LayerTimes(
        float(median(one.read_ms for one in own)),
        float(median(one.copy_ms for one in own)),
        float(median(one.kernel_ms for one in own)),
    )


def _run(pipeline: Pipeline, reader: Reader, x: Tensor) -> None:
    reader.start_cold()
    pipeline.run(x)
