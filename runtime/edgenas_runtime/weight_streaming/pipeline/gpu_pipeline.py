"""Streaming on a GPU: one CUDA stream copies, one runs captured graphs, and a thread reads.

The caller launches everything: copies, which wait on the GPU for the kernels that use their bytes last,
and the graphs of each layer, which wait for its copy. A launch always comes after the launches it waits
for, so that no event is waited for before it was recorded.

Where nothing is read, the first copies of the next inference are launched after those of this one and
continue after it has returned. Where weights are read, the thread continues to read, and their copies
start with the next inference.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from itertools import count
from typing import final

import torch
from torch import Tensor

from edgenas_core.inference.cuda.stream_pool import stream_pool
from edgenas_runtime.network.compiled import Compiled
from edgenas_runtime.network.completion import Compute
from edgenas_runtime.network.engine import Engine
from edgenas_runtime.network.graph_engine import GraphEngine
from edgenas_runtime.network.program import NETWORK_INPUT, Program, Segment
from edgenas_runtime.weight_streaming.files.layers import LayeredNetwork
from edgenas_runtime.weight_streaming.files.readers import WeightReader
from edgenas_runtime.weight_streaming.pipeline.buffers import Buffers
from edgenas_runtime.weight_streaming.pipeline.layout import (
    Done,
    kernels_before,
    launch_order,
    sync_ms,
)
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
class GpuPipeline(Pipeline):
    """Runs graphs that are captured once, with weights at fixed addresses."""

    def __init__(
        self,
        layered: LayeredNetwork,
        plan: StreamPlan,
        reader: WeightReader,
        x: Tensor,
        device: torch.device,
    ) -> None:
        """Allocate the memory, load the resident layers and capture each segment with its weights.

        Raises:
          BaseException: as `Buffers` and `Compiled`.
        """
        self._layers = layered.layers
        self._reader = reader
        self._device = device
        self.buffers = Buffers(layered, plan, reader, device)
        self._pool = stream_pool(
            torch.cuda.current_device() if device.index is None else device.index
        )
        self._compute, self._copier = self._pool.take(), self._pool.take()
        self._layout = self.buffers.layout
        self._ordinals = {layer: i for i, layer in enumerate(self._layout.streamed)}
        self._ahead = self._layout.prefetched_layers if self._layout.host is None else 0
        self._begun = 0  # number of copies already launched for the next inference
        self._times = 1
        self._orders = {
            begun: [*launch_order(self._layout, len(self._layers), begun)]
            for begun in {0, self._ahead}
        }
        jobs = [self._read_all] if self._layout.host is not None else []
        streamed = len(self._layout.streamed)
        self._workers = StageWorkers(jobs, streamed)
        self._copies, self._copied = _events(streamed), _events(streamed)
        self._begins, self._ends = _events(len(self._layers)), _events(len(self._layers))
        self._read_s = [0.0] * len(self._layers)
        try:
            with torch.inference_mode(mode=False):
                program = layered.bind(self.buffers.places())
            engine = _LoadingEngine(GraphEngine(self._compute), program, self)
            self._compiled: Compiled | None = Compiled(program, x, [engine])
        except BaseException:
            self.close()
            raise
        self._x = self._compiled.value(NETWORK_INPUT, engine.device)
        self._output = self._compiled.value(self._compiled.output, engine.device)
        self._jobs: list[list[Compute]] = [
            [self._compiled.job(i, 0) for i in layer.segments] for layer in self._layers
        ]

    def repeat_kernels(self, times: int) -> None:
        """Run each layer's kernels this many times from now on, and time the last run.

        In-place operations are also repeated, so the outputs are not valid.
        """
        self._times = times

    def run(self, x: Tensor) -> Tensor:
        """Run one inference and return the output, on the GPU."""
        caller = torch.cuda.current_stream(self._device)
        begun, self._begun = self._begun, 0
        with torch.no_grad():
            try:
                with self._workers.inference() as (progress, before):
                    self._compute.wait_stream(caller)
                    with torch.cuda.stream(self._compute):
                        self._x.copy_(x, non_blocking=True)
                    self._launch(progress, before, begun)
                    self._compute.synchronize()
            except BaseException:  # the GPU must have stopped using the rings
                self._copier.synchronize()
                self._compute.synchronize()
                raise
            self._begun = self._ahead
            return self._output.clone()

    @property
    def times(self) -> list[LayerTimes]:
        """Stage durations of each layer in the latest run, by CUDA events except for reads."""
        self._copier.synchronize()  # prefetched copies are timed too
        durations = []
        for layer in range(len(self._layers)):
            ordinal = self._ordinals.get(layer)
            copy_ms = 0.0
            if ordinal is not None and self._layout.device is not None:
                copy_ms = self._copies[ordinal].elapsed_time(self._copied[ordinal])
            kernel_ms = self._begins[layer].elapsed_time(self._ends[layer])
            durations.append(LayerTimes(1e3 * self._read_s[layer], copy_ms, kernel_ms))
        return durations

    def sync_ms(self, stage: StreamStage) -> float:
        """Median synchronisation delay of a stage in the latest run, by CUDA events.

        0 for stages that wait for the host or prefetch.
        """
        waits_for_host = self._layout.host is not None and (
            stage is not StreamStage.KERNEL or self._layout.device is None
        )
        if self._layout.is_ahead or waits_for_host:
            return 0.0
        return sync_ms(self._layout, stage, self._since_ms)

    def wait_prefetched(self) -> None:
        """Block until prefetching for the next inference has ended."""
        self._copier.synchronize()
        if self._layout.host is not None:
            self._workers.wait_for([(StreamStage.READ, self._layout.prefetched_layers)])

    def empty_rings(self) -> None:
        """Stop prefetching; the next inference starts with empty rings."""
        self._workers.end()
        self._copier.synchronize()
        self._begun = 0

    def close(self) -> None:
        """Stop prefetching and release the memory."""
        try:
            self._workers.end()
        finally:
            self._release()

    def _release(self) -> None:
        self._jobs = []
        self._compiled = None
        self._x = self._output = torch.empty(0)
        for stream in (self._compute, self._copier):
            stream.synchronize()
        self.buffers.close()
        for stream in (self._compute, self._copier):
            self._pool.give_back(stream)
        gc.collect()  # modules and the graphs that own their activations form cycles
        torch.cuda.empty_cache()  # graph memory cannot be reused by other graphs

    def load(self, layer: int) -> None:
        """Load one layer to its address and wait for it."""
        ordinal = self._ordinals.get(layer)
        if ordinal is None:
            return
        if self._layout.host is not None:
            self._read(ordinal, StreamProgress())
        if self._layout.device is not None:
            self._transfer(ordinal)
            torch.cuda.synchronize(self._device)

    def layer_of(self, segment: int) -> int:
        """Return the layer to which a segment belongs."""
        return next(i for i, layer in enumerate(self._layers) if segment in layer.segments)

    def _since_ms(self, end: Done, begin: Done) -> float:
        last = self._event(end, self._copied, self._ends)
        return float(last.elapsed_time(self._event(begin, self._copies, self._begins)))

    def _event(
        self, done: Done, copies: Sequence[torch.cuda.Event], kernels: Sequence[torch.cuda.Event]
    ) -> torch.cuda.Event:
        stage, layer = done
        return kernels[layer] if stage is StreamStage.KERNEL else copies[self._ordinals[layer]]

    def _launch(self, progress: StreamProgress, before: int, begun: int) -> None:
        for stage, number in self._orders[begun]:
            if stage is StreamStage.COPY:
                self._launch_copy(number, progress, before)
            else:
                self._launch_kernels(number, self._ordinals.get(number), progress)

    def _launch_copy(self, number: int, progress: StreamProgress, before: int) -> None:
        """Launch the copy of a streamed layer; numbers continue into the next inference."""
        if self._layout.host is not None:
            progress.wait([(StreamStage.READ, number + 1)], before)
        if self._layout.device is None:
            return
        used_by = kernels_before(self._layout, number)
        if used_by is not None:
            self._copier.wait_event(self._ends[used_by])
        ordinal = number % len(self._layout.streamed)
        self._copies[ordinal].record(self._copier)
        with torch.cuda.stream(self._copier):
            self._transfer(ordinal)
        self._copied[ordinal].record(self._copier)
        progress.advance(StreamStage.COPY)

    def _launch_kernels(self, layer: int, ordinal: int | None, progress: StreamProgress) -> None:
        if ordinal is not None and self._layout.device is not None:
            self._compute.wait_event(self._copied[ordinal])
        with torch.cuda.stream(self._compute):
            for _ in range(self._times - 1):
                self._run_jobs(layer)
            self._begins[layer].record(self._compute)
            self._run_jobs(layer)
        self._ends[layer].record(self._compute)
        if ordinal is not None:
            progress.advance(StreamStage.KERNEL)

    def _run_jobs(self, layer: int) -> None:
        for job in self._jobs[layer]:
            job()

    def _transfer(self, ordinal: int) -> None:
        for target, source in self.buffers.copies(ordinal):
            target.copy_(source, non_blocking=True)

    def _read_all(self, progress: StreamProgress) -> None:
        """Read layer by layer; wait for the event of the last use of its bytes, not only its launch."""
        assert self._layout.host is not None
        if self._layout.device is None:
            leaves, events = StreamStage.KERNEL, [self._ends[i] for i in self._layout.streamed]
        else:
            leaves, events = StreamStage.COPY, self._copied
        for inferences in count():
            if not self._layout.prefetches(StreamStage.READ):
                progress.wait_requested(inferences + 1)
            before = inferences * len(self._layout.host)
            for ordinal, place in enumerate(self._layout.host):
                if place.after is not None:  # negative: of the previous inference
                    progress.wait([(leaves, place.after + 1)], before)
                    events[place.after].synchronize()
                self._read(ordinal, progress)
                progress.advance(StreamStage.READ)

    def _read(self, ordinal: int, progress: StreamProgress) -> None:
        layer = self._layout.streamed[ordinal]
        began_s = time.perf_counter()
        self._reader.read(self._layers[layer], self.buffers.window(ordinal), progress.is_stopped)
        if progress.is_stopped():  # perhaps within the layer
            raise StoppedError
        self._read_s[layer] = time.perf_counter() - began_s


def _events(layers: int) -> list[torch.cuda.Event]:
    return [torch.cuda.Event(enable_timing=True) for _ in range(layers)]


@final
class _LoadingEngine(Engine):
    """Loads the weights of a segment to their address before it is captured."""

    def __init__(self, engine: GraphEngine, program: Program, pipeline: GpuPipeline) -> None:
        self._engine: Engine = engine
        self.device = engine.device
        self._layers = {
            id(segment): pipeline.layer_of(i) for i, segment in enumerate(program.segments)
        }
        self._pipeline = pipeline
        self._loaded = -1

    def for_network(self) -> Engine:
        """Return itself: it belongs to one network."""
        return self

    def compile(
        self,
        segment: Segment,
        inputs: Sequence[Tensor],
        output: Tensor | None = None,
    ) -> tuple[Compute, Tensor]:
        """Load the segment's layer and capture the segment."""
        layer = self._layers[id(segment)]
        if layer != self._loaded:
            self._pipeline.load(layer)
            self._loaded = layer
        versions = self._pipeline.buffers.versions()
        made = self._engine.compile(segment, inputs, output)
        if versions != self._pipeline.buffers.versions():
            raise ValueError(writes_weights_message(segment.name))
        return made
