"""Profiling: durations of the stages of each layer while they overlap."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import astuple

import numpy as np
from torch import Tensor

from edgenas_runtime.weight_streaming.files.layers import LayeredNetwork
from edgenas_runtime.weight_streaming.files.readers import WeightReader
from edgenas_runtime.weight_streaming.pipeline.pipeline import LayerTimes, Pipeline
from edgenas_runtime.weight_streaming.pipeline.progress import StreamStage
from edgenas_runtime.weight_streaming.planning.plan import (
    StreamedLayer,
    StreamPlan,
    StreamStages,
)
from edgenas_runtime.weight_streaming.planning.ring import PAGE_BYTES

_MAX_REPETITIONS = 64
"""Limit of how often a layer's kernels are repeated to keep a GPU busy."""

_BUSY = 3
"""Factor by which a GPU settles longer before its kernels are timed alone."""


def unmeasured(layered: LayeredNetwork) -> list[StreamedLayer]:
    """Return the layers with stage times of 0, for uses that depend on bytes only."""
    return [StreamedLayer(layer.name, layer.nbytes, 0.0, 0.0, 0.0) for layer in layered.layers]


def profiling_plan(layered: LayeredNetwork, stages: StreamStages, budget_bytes: int) -> StreamPlan:
    """Return a plan without resident layers, with rings in which stages overlap within the budget.

    A stage takes longer beside other stages than alone. Each ring holds the largest layer, even where the
    budget does not: a plan keeps that one resident.
    """
    enough = 3 * layered.largest_bytes
    share = budget_bytes // (stages.reads + stages.copies) // PAGE_BYTES * PAGE_BYTES
    ring = max(layered.largest_bytes, min(share, enough))
    host, device = ring * stages.reads, ring * stages.copies
    return StreamPlan(
        (False,) * len(layered.layers),
        host,
        device,
        0.0,
        host + device,
    )


def profiled(
    layered: LayeredNetwork,
    pipeline: Pipeline,
    reader: WeightReader,
    x: Tensor,
    *,
    repeats: int = 3,
    settle_s: float = 0.0,
) -> list[StreamedLayer]:
    """Return the layers with the median durations of their stages.

    The first run is not timed. Durations of reads and copies include their
    synchronisation delay.

    A GPU works for `settle_s` before its times are used. Its kernels are then timed again while
    they are repeated without waiting, because a GPU that waits can clock higher. The longer of both
    times counts, because a repeated kernel may find its weights in a cache.

    Raises:
      BaseException: as `Pipeline.run`.
    """

    def measured(before_s: float, repeats: int) -> tuple[list[LayerTimes], list[float]]:
        """Return the medians of each layer and the synchronisation delay of each stage."""
        _settle(pipeline, reader, x, before_s)
        runs, late = [], []
        for _ in range(repeats):
            _run(pipeline, reader, x)
            runs.append(pipeline.times)
            late.append([pipeline.sync_ms(stage) for stage in StreamStage])
        stages_ms = np.median([[astuple(times) for times in run] for run in runs], axis=0)
        return [LayerTimes(*times) for times in stages_ms.tolist()], np.median(
            late, axis=0
        ).tolist()

    streamed, (reads_ms, copies_ms, kernels_ms) = measured(settle_s, repeats)
    busy = streamed
    if settle_s:
        pipeline.repeat_kernels(_repetitions(streamed))
        is_read = any(times.read_ms for times in streamed)  # reads are slow, so fewer runs
        busy, _ = measured(_BUSY * settle_s, min(2, repeats) if is_read else repeats)
    sizes = [layer.nbytes for layer in layered.layers]
    read_start_ms = _start_ms(sizes, [times.read_ms for times in streamed])
    copy_start_ms = _start_ms(sizes, [times.copy_ms for times in streamed])
    return [
        StreamedLayer(
            name=layer.name,
            weight_bytes=layer.nbytes,
            read_ms=reads_ms + times.read_ms,
            copy_ms=copies_ms + times.copy_ms,
            kernel_ms=max(times.kernel_ms, at_work.kernel_ms),
            sync_ms=kernels_ms,
            read_start_ms=reads_ms + read_start_ms,
            copy_start_ms=copies_ms + copy_start_ms,
        )
        for layer, times, at_work in zip(layered.layers, streamed, busy, strict=True)
    ]


def steady_ms(
    pipeline: Pipeline, reader: WeightReader, x: Tensor, *, repeats: int = 5, settle_s: float = 0.0
) -> float:
    """Return the median duration of an inference directly after others, `settle_s` after the first began.

    Raises:
      BaseException: as `Pipeline.run`.
    """
    _settle(pipeline, reader, x, settle_s)
    taken_ms = []
    for _ in range(repeats):
        began_s = time.perf_counter()
        _run(pipeline, reader, x)
        taken_ms.append(1e3 * (time.perf_counter() - began_s))
    return float(np.median(taken_ms))


def _start_ms(sizes: Sequence[int], transfers_ms: Sequence[float]) -> float:
    """Return the part of transfers that does not depend on bytes, by a fit of relative errors."""
    least_ms = min(transfers_ms)
    if least_ms <= 0 or len({*sizes}) == 1:
        return 0.0
    _, start_ms = np.polyfit(sizes, transfers_ms, 1, w=1 / np.asarray(transfers_ms))
    return min(max(0.0, float(start_ms)), least_ms)


def _repetitions(layers: Sequence[LayerTimes]) -> int:
    """Return the repetitions with which kernels take at least twice as long as transfers."""
    transfers_ms = max(
        sum(times.read_ms for times in layers), sum(times.copy_ms for times in layers)
    )
    kernels_ms = sum(times.kernel_ms for times in layers)
    return min(_MAX_REPETITIONS, 1 + math.ceil(2 * transfers_ms / kernels_ms)) if kernels_ms else 1


def _settle(pipeline: Pipeline, reader: WeightReader, x: Tensor, seconds: float) -> None:
    settled_s = time.monotonic() + seconds
    _run(pipeline, reader, x)
    while time.monotonic() < settled_s:
        _run(pipeline, reader, x)


def _run(pipeline: Pipeline, reader: WeightReader, x: Tensor) -> None:
    reader.start_cold()
    pipeline.run(x)
