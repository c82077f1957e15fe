"""One profiling run: what the stages of each layer take beside each other."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from statistics import median

from torch import Tensor

from runtime.stream.layers import Layered
from runtime.stream.pipeline import LayerTimes, Pipeline
from runtime.stream.progress import Stage
from runtime.stream.readers import Reader
from runtime.stream.ring import PAGE_BYTES
from runtime.stream.stages import Architecture, Stages, StreamedLayer, StreamPlan

_MOST_TIMES = 32
"""That a layer is copied, or its kernels run, so that the kernels wait more or less."""

_SETTLES = 3
"""How much longer than before the other times a GPU works before those of its kernels are believed."""

_NOTICED = 0.01
"""From which share on it is told that kernels are faster where they wait."""


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
      settle_s: how long a GPU works before its times are believed. Its kernels are then timed twice
        more, for the more of the time they wait, the higher is the clock that its power allows: while
        they run again and again so that they hardly wait, of which the longer time counts, for one
        that runs again at once may find its weights in a cache; and while each layer is copied again
        and again so that they mostly wait.

    Raises:
      BaseException: as `Pipeline.run`.
    """

    def measured(before_s: float, repeats: int) -> tuple[list[LayerTimes], list[float], float]:
        """The medians of each layer, how late each stage began, and how long it all took."""
        settled_s = time.monotonic() + before_s
        took_s = [_run(pipeline, reader, x)]
        while time.monotonic() < settled_s:
            took_s.append(_run(pipeline, reader, x))
        runs, late = [], []
        for _ in range(repeats):
            _run(pipeline, reader, x)
            runs.append(pipeline.times)
            late.append([pipeline.handover_ms(stage) for stage in Stage])
        layers = [_medians(own) for own in zip(*runs, strict=True)]
        return layers, [median(one) for one in zip(*late, strict=True)], 1e3 * median(took_s)

    streamed, (reads_ms, copies_ms, handover_ms), _ = measured(settle_s, repeats)
    kernels_ms = [one.kernel_ms for one in streamed]
    eased_ms: list[float | None] = [None] * len(streamed)
    eased_duty = 0.0
    if settle_s:
        comes_from_disk_ms = sum(one.read_ms for one in streamed)
        come_ms = max(sum(one.copy_ms for one in streamed), comes_from_disk_ms)
        fewer = min(2, repeats) if comes_from_disk_ms else repeats
        pipeline.repeat(kernels=_times(2 * come_ms, sum(kernels_ms)))
        busy, _, _ = measured(_SETTLES * settle_s, fewer)
        kernels_ms = [max(ms, one.kernel_ms) for ms, one in zip(kernels_ms, busy, strict=True)]
        pipeline.repeat(copies=_times(2 * sum(kernels_ms), sum(one.copy_ms for one in streamed)))
        waiting, _, took_ms = measured(_SETTLES * settle_s, fewer)
        pipeline.repeat()
        eased = [min(ms, one.kernel_ms) for ms, one in zip(kernels_ms, waiting, strict=True)]
        if sum(eased) < (1 - _NOTICED) * min(sum(kernels_ms), took_ms):
            eased_ms, eased_duty = [*eased], sum(eased) / took_ms
    return [
        StreamedLayer(
            name=layer.name,
            weight_bytes=layer.nbytes,
            read_ms=reads_ms + one.read_ms,
            copy_ms=copies_ms + one.copy_ms,
            kernel_ms=kernels_ms[i],
            handover_ms=handover_ms,
            eased_kernel_ms=eased_ms[i],
            eased_duty=eased_duty,
        )
        for i, (layer, one) in enumerate(zip(layered.layers, streamed, strict=True))
    ]


def _times(whole_ms: float, once_ms: float) -> int:
    """How often something is done so that it takes as long as something else."""
    return max(1, min(_MOST_TIMES, math.ceil(whole_ms / max(once_ms, 1e-3))))


def _medians(own: Sequence[LayerTimes]) -> LayerTimes:
    """Of one layer, over runs."""
    return LayerTimes(
        median(one.read_ms for one in own),
        median(one.copy_ms for one in own),
        median(one.kernel_ms for one in own),
    )


def _run(pipeline: Pipeline, reader: Reader, x: Tensor) -> float:
    """The seconds it took."""
    reader.start_cold()
    begin_s = time.perf_counter()
    pipeline.run(x)
    return time.perf_counter() - begin_s
