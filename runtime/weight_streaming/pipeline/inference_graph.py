"""A whole inference as one CUDA graph: kernels wait for copies by its edges.

An edge costs less than an event of another stream, after which a graph of one layer is launched. The copies
of the next inference are launched after the graph and wait for events that the graph records, so that they
continue after its end; the next graph waits for them where it needs them. Such events are `external`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor

from runtime.network.cuda.graph import GraphEngine
from runtime.network.program import NETWORK_INPUT, Program
from runtime.weight_streaming.files.layers import WeightLayer
from runtime.weight_streaming.pipeline.buffers import Buffers
from runtime.weight_streaming.pipeline.layout import kernels_before, launch_order
from runtime.weight_streaming.pipeline.progress import StreamStage


@final
class InferenceGraph:
    """One inference of a plan that reads nothing, after a number of its copies were begun."""

    def __init__(
        self,
        program: Program,
        layers: Sequence[WeightLayer],
        buffers: Buffers,
        engine: GraphEngine,
        copier: torch.cuda.Stream,
        *,
        x: Tensor,
        prefetched: Sequence[torch.cuda.Event],
        begun: int,
    ) -> None:
        """Capture the inference on the engine's stream; its segments must have run there before.

        Args:
          program: with weights at the addresses of `buffers`.
          layers: of the program.
          buffers: rings and resident layers.
          engine: whose stream the inference is replayed on.
          copier: stream of the copies.
          x: memory of the input.
          prefetched: external events by streamed layer, shared by the graphs of a pipeline: end of a
            copy that another inference began.
          begun: number of copies that the previous inference began.

        Raises:
          RuntimeError: if the inference cannot be captured.
        """
        self._program, self._layers, self._buffers = program, layers, buffers
        self._layout, self._copier, self._x = buffers.layout, copier, x
        self._prefetched, self._begun = prefetched, begun
        self._order = [*launch_order(self._layout, len(layers), begun)]
        streamed = len(self._layout.streamed)
        copies = [number for stage, number in self._order if stage is StreamStage.COPY]
        self._following = [number for number in copies if number >= streamed]
        uses = (kernels_before(self._layout, number) for number in self._following)
        self._left = {layer: torch.cuda.Event(external=True) for layer in uses if layer is not None}
        self._captured = engine.capture(self._inference)

    def launch(self) -> Tensor:
        """Launch the inference on the current stream, and the copies of the next; returns the output's memory."""
        self._captured.replay()
        for number in self._following:
            layer = kernels_before(self._layout, number)
            if layer is not None:
                self._copier.wait_event(self._left[layer])
            ordinal = number % len(self._layout.streamed)
            self._copy(ordinal)
            self._prefetched[ordinal].record(self._copier)
        return self._captured.output

    def _inference(self) -> Tensor:
        compute = torch.cuda.current_stream()
        ordinals = {layer: i for i, layer in enumerate(self._layout.streamed)}
        last_use = {j: i for i, each in enumerate(self._program.segments) for j in each.inputs}
        values = {NETWORK_INPUT: self._x}
        copied: dict[int, torch.cuda.Event] = {}
        ended: dict[int, torch.cuda.Event] = {}
        for stage, number in self._order:
            if stage is StreamStage.COPY:
                if number < len(ordinals):
                    copied[number] = self._captured_copy(
                        number, compute, ended, is_first=not copied
                    )
                continue
            ordinal = ordinals.get(number)
            if ordinal is not None:
                compute.wait_event(copied.get(ordinal) or self._prefetched[ordinal])
            for i in self._layers[number].segments:
                segment = self._program.segments[i]
                values[i] = segment(*(values[j] for j in segment.inputs))
                for j in {*segment.inputs}:
                    if last_use[j] == i and j != self._program.output:
                        del values[j]
            ended[number] = torch.cuda.Event()
            ended[number].record(compute)
            if number in self._left:
                self._left[number].record(compute)
        if copied:
            compute.wait_event(copied[max(copied)])  # a capture ends on one stream
        return values[self._program.output]

    def _captured_copy(
        self,
        ordinal: int,
        compute: torch.cuda.Stream,
        ended: dict[int, torch.cuda.Event],
        *,
        is_first: bool,
    ) -> torch.cuda.Event:
        if is_first:
            self._copier.wait_stream(compute)  # from here on it is captured too
        with torch.cuda.stream(self._copier):
            if is_first and self._begun:
                self._copier.wait_event(self._prefetched[self._begun - 1])
            used_by = kernels_before(self._layout, ordinal)
            if used_by is not None:
                self._copier.wait_event(ended[used_by])
            self._copy(ordinal)
            event = torch.cuda.Event()
            event.record(self._copier)
        return event

    def _copy(self, ordinal: int) -> None:
        with torch.cuda.stream(self._copier):
            for target, source in self._buffers.copies(ordinal):
                target.copy_(source, non_blocking=True)
