"""Many networks as one CUDA graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor

from benchmarks.dispatch.prepared import DispatchedNetwork, Ready, Stream
from edgenas_core.inference.cuda.graph import CAPTURE_WARM_UP
from edgenas_runtime.lanes.gpu import GpuLane
from edgenas_runtime.network.completion import Compute
from edgenas_runtime.network.graph_engine import GraphEngine
from edgenas_runtime.network.program import Program
from edgenas_runtime.network.segment_kind import SegmentKind


@final
class Branches(Ready):
    """A CUDA graph with a parallel branch for each network; one job, one launch."""

    def __init__(self, sources: Sequence[DispatchedNetwork], streams: Sequence[Stream]) -> None:
        """Capture the graph.

        There is one stream for each network, on one GPU; the graph is launched on the first.

        Raises:
          ValueError: if there is no network.
          BaseException: any error of `decompose`, or of a network during capture.
        """
        if not sources:
            raise ValueError("a graph of no networks has no branches")
        self.count = len(sources)
        lanes = [lane for lane in streams if isinstance(lane, GpuLane)]
        self._branches: list[tuple[torch.cuda.Stream, Program, Tensor]] = []
        for source, lane in zip(sources, lanes, strict=True):
            device = lane.stream.device
            self._branches.append((lane.stream, source.program.on(device), source.x.to(device)))
        torch.cuda.current_stream().synchronize()  # the weights are there
        with torch.no_grad():
            for stream, program, x in self._branches:
                with torch.cuda.stream(stream):
                    for _ in range(CAPTURE_WARM_UP):
                        program.run(x)
                stream.synchronize()
        engine = lanes[0].engine
        assert isinstance(engine, GraphEngine)
        captured = engine.capture(self._fork_and_join)
        self._replay, self._written = captured.graph.replay, captured.output  # no cycle with self

    def _fork_and_join(self) -> list[Tensor]:
        stem = self._branches[0][0]
        fork = torch.cuda.Event()
        fork.record(stem)
        written = []
        for stream, program, x in self._branches:
            if stream != stem:
                stream.wait_event(fork)
            with torch.cuda.stream(stream):
                written.append(program.run(x))
        for stream, _, _ in self._branches[1:]:
            stem.wait_stream(stream)
        return written

    kinds = (SegmentKind.NETWORK,)

    def inference(self) -> Sequence[Compute]:
        """One inference of every network."""
        return [self._replay]

    @property
    def outputs(self) -> list[Tensor]:
        """Outputs of the latest replay."""
        return [one.to("cpu", copy=True) for one in self._written]
