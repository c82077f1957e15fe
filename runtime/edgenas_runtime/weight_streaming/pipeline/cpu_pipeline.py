"""Streaming on a CPU: one thread reads, one copies, and the caller computes with torch."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import final

import numpy as np
import torch
from torch import Tensor

from edgenas_runtime.network.engine import CPU
from edgenas_runtime.network.program import ActiveInference, Program
from edgenas_runtime.weight_streaming.files.layers import LayeredNetwork
from edgenas_runtime.weight_streaming.files.readers import WeightReader
from edgenas_runtime.weight_streaming.pipeline.buffers import Buffers
from edgenas_runtime.weight_streaming.pipeline.layout import sync_ms
from edgenas_runtime.weight_streaming.pipeline.pipeline import (
    LayerTimes,
    Pipeline,
    writes_weights_message,
)
from edgenas_runtime.weight_streaming.pipeline.progress import (
    StoppedError,
    StreamProgress,
    StreamStage,
)
from edgenas_runtime.weight_streaming.pipeline.workers import StageWorkers
from edgenas_runtime.weight_streaming.planning.plan import StreamPlan


@final
class CpuPipeline(Pipeline):
    """Kernels use the host ring, or a second ring that is copied from it.

    The second ring is of no use on a CPU, except to measure the architectures with three stages.
    """

    def __init__(self, layered: LayeredNetwork, plan: StreamPlan, reader: WeightReader) -> None:
        """Allocate the memory and load the resident layers.

        Raises:
          BaseException: as `Buffers`.
        """
        self.buffers = Buffers(layered, plan, reader, CPU)
        self._layers = layered.layers
        self._reader = reader
        self._layout = self.buffers.layout
        self._began_s = np.zeros((len(StreamStage), len(self._layers)))
        self._ended_s = np.zeros((len(StreamStage), len(self._layers)))
        self._ordinals = {layer: i for i, layer in enumerate(self._layout.streamed)}
        jobs = []
        if self._layout.host is not None:
            jobs.append(partial(self._run_all, StreamStage.READ, self._read))
        if self._layout.device is not None:
            jobs.append(partial(self._run_all, StreamStage.COPY, self._copy))
        self._workers = StageWorkers(jobs, len(self._layout.streamed))
        try:
            with torch.inference_mode(mode=False):
                self._program: Program = layered.bind(self.buffers.places())
        except BaseException:
            self.buffers.close()
            raise

    def repeat_kernels(self, times: int) -> None:
        """No effect: kernel times on a CPU do not depend on idle time."""

    def run(self, x: Tensor) -> Tensor:
        """Run one inference and return the output."""
        with torch.no_grad(), self._workers.inference() as (progress, before):
            running = self._program.start(x)
            versions = self.buffers.versions()
            for layer in range(len(self._layers)):
                ordinal = self._ordinals.get(layer)
                if ordinal is not None:
                    progress.wait(self._needs(StreamStage.KERNEL, ordinal), before)
                self._compute(running, layer, versions)
                if ordinal is not None:
                    progress.advance(StreamStage.KERNEL)
            return running.output

    @property
    def times(self) -> list[LayerTimes]:
        """Stage durations of each layer in the latest run."""
        took_ms = 1e3 * (self._ended_s - self._began_s)
        return [LayerTimes(*took_ms[:, i].tolist()) for i in range(len(self._layers))]

    def sync_ms(self, stage: StreamStage) -> float:
        """Median synchronisation delay of a stage in the latest run."""
        if self._layout.is_ahead:
            return 0.0
        return sync_ms(
            self._layout,
            stage,
            lambda end, begin: 1e3 * (self._began_s[begin] - self._ended_s[end]),
        )

    def wait_prefetched(self) -> None:
        """Block until prefetching for the next inference has ended."""
        first = StreamStage.COPY if self._layout.host is None else StreamStage.READ
        self._workers.wait_for([(first, self._layout.prefetched_layers)])

    def empty_rings(self) -> None:
        """Stop prefetching; the next inference starts with empty rings."""
        self._workers.end()

    def close(self) -> None:
        """Stop prefetching and release the memory."""
        try:
            self._workers.end()
        finally:
            self._program = Program((), 0)
            self.buffers.close()

    def _run_all(
        self,
        stage: StreamStage,
        run: Callable[[int, StreamProgress], None],
        progress: StreamProgress,
    ) -> None:
        """Run a stage of the streamed layers, inference after inference, each when it may start."""
        needed = [self._needs(stage, ordinal) for ordinal in range(len(self._layout.streamed))]
        for inferences in count():
            if not self._layout.prefetches(stage):
                progress.wait_requested(inferences + 1)
            for ordinal, needs in enumerate(needed):
                progress.wait(needs, inferences * len(needed))
                if progress.is_stopped():
                    raise StoppedError
                run(ordinal, progress)
                progress.advance(stage)

    def _read(self, ordinal: int, progress: StreamProgress) -> None:
        layer = self._layout.streamed[ordinal]
        began_s = time.perf_counter()
        self._reader.read(self._layers[layer], self.buffers.window(ordinal), progress.is_stopped)
        if progress.is_stopped():  # perhaps within the layer
            raise StoppedError
        self._took(StreamStage.READ, layer, began_s)

    def _copy(self, ordinal: int, _progress: StreamProgress) -> None:
        """Copy with NumPy: on one thread, with the GIL released."""
        layer = self._layout.streamed[ordinal]
        began_s = time.perf_counter()
        for target, source in self.buffers.copies(ordinal):
            np.copyto(target.numpy(), source.numpy())
        self._took(StreamStage.COPY, layer, began_s)

    def _compute(self, running: ActiveInference, layer: int, versions: list[int]) -> None:
        began_s = time.perf_counter()
        for segment in self._layers[layer].segments:
            running.job(segment, 0)()
        self._took(StreamStage.KERNEL, layer, began_s)
        if versions != self.buffers.versions():
            raise ValueError(writes_weights_message(self._layers[layer].name))

    def _took(self, stage: StreamStage, layer: int, began_s: float) -> None:
        self._began_s[stage, layer], self._ended_s[stage, layer] = began_s, time.perf_counter()

    def _needs(self, stage: StreamStage, ordinal: int) -> list[tuple[StreamStage, int]]:
        """Return how many streamed layers other stages must have finished before."""
        return [(other, before + 1) for other, before in self._layout.needs(stage, ordinal)]
