"""Copies beside captured graphs on a GPU: a stream copies, a stream computes, a thread reads.

The caller launches everything: copies, which wait on the GPU for the kernels that use their bytes
last, and the graphs of layer i, which wait for its copy. Each thing that waits for another on the
GPU is launched after it, so an event is never waited for before it was recorded.

Where nothing is read, the copies that the next inference begins with are launched behind those of this
one, and go on when it has returned. Where weights are read, the thread goes on reading, and their copies
begin with the next inference.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from itertools import count
from typing import final

import torch
from torch import Tensor

from runtime.network.compiled import Compiled
from runtime.network.completion import Compute
from runtime.network.cuda.graph import GraphEngine
from runtime.network.cuda.stream_pool import stream_pool
from runtime.network.engine import Engine
from runtime.network.program import NETWORK_INPUT, Program, Segment
from runtime.weight_streaming.files.layers import LayeredNetwork
from runtime.weight_streaming.files.readers import Reader
from runtime.weight_streaming.pipeline.buffers import Buffers
from runtime.weight_streaming.pipeline.launch_order import kernels_before, launch_order
from runtime.weight_streaming.pipeline.pipeline import LayerTimes, Pipeline, writes_weights
from runtime.weight_streaming.pipeline.progress import Progress, Stage, StoppedError
from runtime.weight_streaming.pipeline.sync_delay import Done, sync_ms
from runtime.weight_streaming.pipeline.workers import Workers
from runtime.weight_streaming.planning.plan import StreamPlan


@final
class GpuPipeline(Pipeline):
    """Graphs are captured once, on weights at places that are the same in each inference."""

    def __init__(
        self,
        layered: LayeredNetwork,
        plan: StreamPlan,
        reader: Reader,
        x: Tensor,
        device: torch.device,
    ) -> None:
        """Takes the memory, loads the residents and captures each segment with its true weights.

        Raises:
          BaseException: as `Buffers` and `Compiled`.
        """
        self._layers = layered.layers
        self._reader = reader
        self._device = device
        self._buffers = Buffers(layered, plan, reader, device)
        self._stock = stream_pool(
            torch.cuda.current_device() if device.index is None else device.index
        )
        self._compute, self._copier = self._stock.take(), self._stock.take()
        self._layout = self._buffers.layout
        self._ordinals = {layer: i for i, layer in enumerate(self._layout.streamed)}
        self._ahead = self._layout.prefetched_layers if self._layout.host is None else 0
        self._begun = 0  # copies for the next inference that are launched
        self._times = 1
        self._orders = {
            begun: [*launch_order(self._layout, len(self._layers), begun)]
            for begun in {0, self._ahead}
        }
        jobs = [self._read_all] if self._layout.host is not None else []
        streamed = len(self._layout.streamed)
        self._workers = Workers(jobs, streamed)
        self._copies, self._copied = _events(streamed), _events(streamed)
        self._begins, self._ends = _events(len(self._layers)), _events(len(self._layers))
        self._read_s = [0.0] * len(self._layers)
        try:
            with torch.inference_mode(mode=False):
                program = layered.bound(self._buffers.places())
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

    @property
    def buffers(self) -> Buffers:
        """Its memory."""
        return self._buffers

    def repeat_kernels(self, times: int) -> None:
        """From now on a layer's kernels run so many times, the last of which is timed.

        They have their true weights each time, but what a layer writes to in place it does again: the
        output is of no use then.
        """
        self._times = times

    def run(self, x: Tensor) -> Tensor:
        """The output, on the GPU."""
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
            except BaseException:  # nobody may touch the rings while something on the GPU does
                self._copier.synchronize()
                self._compute.synchronize()
                raise
            self._begun = self._ahead
            return self._output.clone()

    @property
    def times(self) -> list[LayerTimes]:
        """Of each layer in the latest run, by the GPU's clock but for the reads."""
        self._copier.synchronize()  # with what it brings ahead, which is timed too
        found = []
        for layer in range(len(self._layers)):
            ordinal = self._ordinals.get(layer)
            copy_ms = 0.0
            if ordinal is not None and self._layout.device is not None:
                copy_ms = self._copies[ordinal].elapsed_time(self._copied[ordinal])
            kernel_ms = self._begins[layer].elapsed_time(self._ends[layer])
            found.append(LayerTimes(1e3 * self._read_s[layer], copy_ms, kernel_ms))
        return found

    def sync_ms(self, stage: Stage) -> float:
        """How much later than it could each layer's stage began in the latest run; the median.

        By the GPU's clock; 0 of stages that wait for the host's or for each other's step, or that
        bring layers ahead.
        """
        waits_for_host = self._layout.host is not None and (
            stage is not Stage.KERNEL or self._layout.device is None
        )
        if self._layout.is_synchronous or self._layout.is_ahead or waits_for_host:
            return 0.0
        return sync_ms(self._layout, stage, self._since_ms)

    def rest(self) -> None:
        """Waits until all that is brought ahead is there."""
        self._copier.synchronize()
        if self._layout.host is not None:
            self._workers.rest([(Stage.READ, self._layout.prefetched_layers)])

    def empty(self) -> None:
        """The next inference begins with empty rings."""
        self._workers.end()
        self._copier.synchronize()
        self._begun = 0

    def close(self) -> None:
        """Gives its memory back, to torch's cache what was the GPU's."""
        try:
            self._workers.end()
        finally:
            self._give_back()

    def _give_back(self) -> None:
        self._jobs = []
        self._compiled = None
        self._x = self._output = torch.empty(0)
        for stream in (self._compute, self._copier):
            stream.synchronize()
        self._buffers.close()
        for stream in (self._compute, self._copier):
            self._stock.give_back(stream)
        gc.collect()  # modules and the graphs that keep their activations are cycles
        torch.cuda.empty_cache()  # no other graph can use what these had

    def load(self, layer: int) -> None:
        """Brings one layer to its place, and waits."""
        ordinal = self._ordinals.get(layer)
        if ordinal is None:
            return
        if self._layout.host is not None:
            self._read(ordinal, Progress())
        if self._layout.device is not None:
            self._transfer(ordinal)
            torch.cuda.synchronize(self._device)

    def layer_of(self, segment: int) -> int:
        """The layer to which a segment belongs."""
        return next(i for i, one in enumerate(self._layers) if segment in one.segments)

    def _since_ms(self, end: Done, begin: Done) -> float:
        last = self._event(end, self._copied, self._ends)
        return float(last.elapsed_time(self._event(begin, self._copies, self._begins)))

    def _event(
        self, done: Done, copies: Sequence[torch.cuda.Event], kernels: Sequence[torch.cuda.Event]
    ) -> torch.cuda.Event:
        stage, layer = done
        return kernels[layer] if stage is Stage.KERNEL else copies[self._ordinals[layer]]

    def _launch(self, progress: Progress, before: int, begun: int) -> None:
        if self._layout.is_synchronous:
            self._launch_in_step(progress, before)
            return
        for stage, number in self._orders[begun]:
            if stage is Stage.COPY:
                self._launch_copy(number, progress, before)
            else:
                self._launch_kernels(number, self._ordinals.get(number), progress)

    def _launch_in_step(self, progress: Progress, before: int) -> None:
        """Read, copy and kernel of three neighbours, then the next three; all layers stream."""
        layers = len(self._layers)
        for cycle in range(1, layers + 2):
            if cycle <= layers:
                self._launch_copy(cycle - 1, progress, before)
            if cycle >= 2:
                self._launch_kernels(cycle - 2, cycle - 2, progress)
            self._copier.synchronize()
            self._compute.synchronize()
            if cycle <= layers:
                progress.advance(Stage.COPY)
            if cycle >= 2:
                progress.advance(Stage.KERNEL)
            if self._layout.host is not None:
                progress.wait([(Stage.READ, min(cycle + 1, layers))], before)

    def _launch_copy(self, number: int, progress: Progress, before: int) -> None:
        """Of the inference's streamed layer of this number, or of the next one's, counted on."""
        if self._layout.host is not None:
            progress.wait([(Stage.READ, number + 1)], before)
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
        if not self._layout.is_synchronous:
            progress.advance(Stage.COPY)

    def _launch_kernels(self, layer: int, ordinal: int | None, progress: Progress) -> None:
        if ordinal is not None and self._layout.device is not None:
            self._compute.wait_event(self._copied[ordinal])
        with torch.cuda.stream(self._compute):
            for _ in range(self._times - 1):
                self._run_jobs(layer)
            self._begins[layer].record(self._compute)
            self._run_jobs(layer)
        self._ends[layer].record(self._compute)
        if ordinal is not None and not self._layout.is_synchronous:
            progress.advance(Stage.KERNEL)

    def _run_jobs(self, layer: int) -> None:
        for job in self._jobs[layer]:
            job()

    def _transfer(self, ordinal: int) -> None:
        self._buffers.target(ordinal).copy_(self._buffers.source(ordinal), non_blocking=True)

    def _read_all(self, progress: Progress) -> None:
        """Launched is not over: what uses a layer's bytes has an event, which is waited for here."""
        assert self._layout.host is not None
        if self._layout.device is None:
            leaves, events = Stage.KERNEL, [self._ends[i] for i in self._layout.streamed]
        else:
            leaves, events = Stage.COPY, self._copied
        for inferences in count():
            if not self._layout.prefetches(Stage.READ):
                progress.wait_asked(inferences + 1)
            before = inferences * len(self._layout.host)
            for ordinal, place in enumerate(self._layout.host):
                if place.after is not None:  # below 0 of the inference before
                    progress.wait([(leaves, place.after + 1)], before)
                    events[place.after].synchronize()
                if self._layout.is_synchronous:
                    progress.wait([(Stage.COPY, ordinal - 1), (Stage.KERNEL, ordinal - 2)], before)
                self._read(ordinal, progress)
                progress.advance(Stage.READ)

    def _read(self, ordinal: int, progress: Progress) -> None:
        layer = self._layout.streamed[ordinal]
        began_s = time.perf_counter()
        self._reader.read(layer, self._buffers.window(ordinal), progress.is_stopped)
        if progress.is_stopped():  # perhaps in the middle of the layer
            raise StoppedError
        self._read_s[layer] = time.perf_counter() - began_s


def _events(layers: int) -> list[torch.cuda.Event]:
    return [torch.cuda.Event(enable_timing=True) for _ in range(layers)]


@final
class _LoadingEngine(Engine):
    """Captures a segment once its weights are where its graph will find them."""

    def __init__(self, engine: GraphEngine, program: Program, pipeline: GpuPipeline) -> None:
        self._engine: Engine = engine
        self._layers = {
            id(segment): pipeline.layer_of(i) for i, segment in enumerate(program.segments)
        }
        self._pipeline = pipeline
        self._loaded = -1

    @property
    def device(self) -> torch.device:
        """The GPU."""
        return self._engine.device

    def for_network(self) -> Engine:
        """Itself: it is of one already."""
        return self

    def compile(
        self,
        segment: Segment,
        inputs: Sequence[Tensor],
        output: Tensor | None = None,
    ) -> tuple[Compute, Tensor]:
        """As the engine does it."""
        layer = self._layers[id(segment)]
        if layer != self._loaded:
            self._pipeline.load(layer)
            self._loaded = layer
        versions = self._pipeline.buffers.versions()
        made = self._engine.compile(segment, inputs, output)
        if versions != self._pipeline.buffers.versions():
            raise ValueError(writes_weights(segment.name))
        return made
