"""Reads beside torch on the CPU: a thread that reads, one that copies, and the caller computes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import final

import numpy as np
import torch
from torch import Tensor

from runtime.network.engine import CPU
from runtime.network.program import ActiveInference, Program
from runtime.weight_streaming.files.layers import LayeredNetwork
from runtime.weight_streaming.files.readers import Reader
from runtime.weight_streaming.pipeline.buffers import Buffers
from runtime.weight_streaming.pipeline.pipeline import LayerTimes, Pipeline, writes_weights
from runtime.weight_streaming.pipeline.progress import Progress, Stage, StoppedError
from runtime.weight_streaming.pipeline.sync_delay import sync_ms
from runtime.weight_streaming.pipeline.workers import Workers
from runtime.weight_streaming.planning.plan import StreamPlan

_Needs = list[tuple[Stage, int]]


@final
class CpuPipeline(Pipeline):
    """Kernels use the host's ring, or with a second ring, copied from it, that one.

    The second is no use on a CPU; it is what the architectures with three stages are measured with.
    """

    def __init__(self, layered: LayeredNetwork, plan: StreamPlan, reader: Reader) -> None:
        """Takes the memory and loads the residents.

        Raises:
          BaseException: as `Buffers`.
        """
        self._buffers = Buffers(layered, plan, reader, CPU)
        self._layers = layered.layers
        self._reader = reader
        self._layout = self._buffers.layout
        self._began_s = np.zeros((len(Stage), len(self._layers)))
        self._ended_s = np.zeros((len(Stage), len(self._layers)))
        self._ordinals = {layer: i for i, layer in enumerate(self._layout.streamed)}
        jobs = []
        if self._layout.host is not None:
            jobs.append(self._read_all)
        if self._layout.device is not None:
            jobs.append(self._copy_all)
        self._workers = Workers(jobs, len(self._layout.streamed))
        try:
            with torch.inference_mode(mode=False):
                self._program: Program = layered.bound(self._buffers.places())
        except BaseException:
            self._buffers.close()
            raise

    @property
    def buffers(self) -> Buffers:
        """Its memory."""
        return self._buffers

    def repeat_kernels(self, times: int) -> None:
        """It does not matter to a CPU, whose kernels take what they take beside reads."""

    def run(self, x: Tensor) -> Tensor:
        """The output."""
        with torch.no_grad(), self._workers.inference() as (progress, before):
            running = self._program.start(x)
            versions = self._buffers.versions()
            for layer in range(len(self._layers)):
                ordinal = self._ordinals.get(layer)
                if ordinal is not None:
                    progress.wait(self._before_kernel(ordinal), before)
                self._compute(running, layer, versions)
                if ordinal is not None:
                    progress.advance(Stage.KERNEL)
            return running.output

    @property
    def times(self) -> list[LayerTimes]:
        """Of each layer in the latest run."""
        took_ms = 1e3 * (self._ended_s - self._began_s)
        return [LayerTimes(*took_ms[:, i].tolist()) for i in range(len(self._layers))]

    def sync_ms(self, stage: Stage) -> float:
        """How much later than it could each layer's stage began in the latest run; the median."""
        if self._layout.is_synchronous or self._layout.is_ahead:
            return 0.0
        return sync_ms(
            self._layout,
            stage,
            lambda end, begin: 1e3 * (self._began_s[begin] - self._ended_s[end]),
        )

    def rest(self) -> None:
        """Waits until all that is brought ahead is there."""
        first = Stage.COPY if self._layout.host is None else Stage.READ
        self._workers.rest([(first, self._layout.prefetched_layers)])

    def empty(self) -> None:
        """The next inference begins with empty rings."""
        self._workers.end()

    def close(self) -> None:
        """Gives its memory back."""
        try:
            self._workers.end()
        finally:
            self._program = Program((), 0)
            self._buffers.close()

    def _read_all(self, progress: Progress) -> None:
        for ordinal in self._turns(Stage.READ, progress, self._before_read):
            self._read(ordinal, progress)
            progress.advance(Stage.READ)

    def _copy_all(self, progress: Progress) -> None:
        for ordinal in self._turns(Stage.COPY, progress, self._before_copy):
            self._copy(ordinal)
            progress.advance(Stage.COPY)

    def _turns(
        self, stage: Stage, progress: Progress, needs: Callable[[int], _Needs]
    ) -> Iterator[int]:
        """The streamed layers again and again, each when a stage may begin with it."""
        needed = [needs(ordinal) for ordinal in range(len(self._layout.streamed))]
        for inferences in count():
            if not self._layout.prefetches(stage):
                progress.wait_asked(inferences + 1)
            for ordinal, need in enumerate(needed):
                progress.wait(need, inferences * len(needed))
                if progress.is_stopped():
                    raise StoppedError
                yield ordinal

    def _read(self, ordinal: int, progress: Progress) -> None:
        layer = self._layout.streamed[ordinal]
        began_s = time.perf_counter()
        self._reader.read(layer, self._buffers.window(ordinal), progress.is_stopped)
        if progress.is_stopped():  # perhaps in the middle of the layer
            raise StoppedError
        self._took(Stage.READ, layer, began_s)

    def _copy(self, ordinal: int) -> None:
        """By NumPy: one thread, and Python's lock is free."""
        layer = self._layout.streamed[ordinal]
        began_s = time.perf_counter()
        np.copyto(self._buffers.target(ordinal).numpy(), self._buffers.source(ordinal).numpy())
        self._took(Stage.COPY, layer, began_s)

    def _compute(self, running: ActiveInference, layer: int, versions: list[int]) -> None:
        began_s = time.perf_counter()
        for segment in self._layers[layer].segments:
            running.job(segment, 0)()
        self._took(Stage.KERNEL, layer, began_s)
        if versions != self._buffers.versions():
            raise ValueError(writes_weights(self._layers[layer].name))

    def _took(self, stage: Stage, layer: int, began_s: float) -> None:
        self._began_s[stage, layer], self._ended_s[stage, layer] = began_s, time.perf_counter()

    def _before_read(self, ordinal: int) -> _Needs:
        assert self._layout.host is not None
        leaves = Stage.KERNEL if self._layout.device is None else Stage.COPY
        needs = [*_left(leaves, self._layout.host[ordinal].after)]
        if self._layout.is_synchronous:
            needs += [(Stage.COPY, ordinal - 1), (Stage.KERNEL, ordinal - 2)]
        return needs

    def _before_copy(self, ordinal: int) -> _Needs:
        assert self._layout.device is not None
        needs = [*_left(Stage.KERNEL, self._layout.device[ordinal].after)]
        if self._layout.host is not None:
            needs.append((Stage.READ, ordinal + 1))
        if self._layout.is_synchronous:
            needs.append((Stage.KERNEL, ordinal - 1))
        return needs

    def _before_kernel(self, ordinal: int) -> _Needs:
        needs = []
        if self._layout.device is not None:
            needs.append((Stage.COPY, ordinal + 1))
        elif self._layout.host is not None:
            needs.append((Stage.READ, ordinal + 1))
        if self._layout.is_synchronous and self._layout.host is not None:
            needs.append((Stage.READ, min(ordinal + 2, len(self._layout.streamed))))
        return needs


def _left(stage: Stage, after: int | None) -> Iterator[tuple[Stage, int]]:
    """That the streamed layer of this number, or below 0 of the inference before, was through."""
    if after is not None:
        yield stage, after + 1
