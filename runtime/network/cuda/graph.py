"""Segments as captured CUDA graphs: one launch a segment, whatever the number of its kernels."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Generic, TypeVar, final

import torch
from torch import Tensor

from runtime.network.completion import Compute
from runtime.network.engine import Engine, is_view, nothing, tried
from runtime.network.program import Segment

CAPTURE_WARM_UP = 3
"""Eager calls before a capture, as torch asks for: they let cuDNN choose its kernels."""

Output = TypeVar("Output")

_BROKEN: list[torch.cuda.CUDAGraph] = []
"""Of captures that could not be ended: torch's allocator of pinned memory goes on asking them
whether they capture, so they must not die."""


@final
@dataclass(frozen=True)
class CapturedGraph(Generic[Output]):
    """A captured CUDA graph and the owners of the memory that it reads and writes.

    The graph itself holds addresses only: memory without an owner goes back to the device.
    """

    graph: torch.cuda.CUDAGraph
    compute: Callable[[], Output]
    """The captured function; it owns the inputs and the weights."""
    output: Output
    """Overwritten by each replay."""

    def __call__(self) -> Output:
        """Launch the graph on the current stream and return its output without waiting for it."""
        self.graph.replay()
        return self.output

    def replay(self) -> None:
        """Launch the graph on the current stream."""
        self.graph.replay()


@final
class GraphEngine(Engine):
    """Captures on one stream, and replays on whichever is current: that one, to be safe.

    All its graphs share a pool of memory: where one has its temporary values, a later one may have
    its output. So they must be replayed one at a time and, of one inference, in the order of their
    capture: they must be those of one network.
    """

    def __init__(self, stream: torch.cuda.Stream) -> None:
        """Of a stream that may not be the default one, on which nothing can be captured."""
        self._stream = stream
        self._pool = torch.cuda.graph_pool_handle()
        self._first: torch.cuda.CUDAGraph | None = None
        """Keeps the pool: torch lets nobody use one again whose graphs have all died."""

    @property
    def device(self) -> torch.device:
        """The stream's."""
        return self._stream.device

    def for_network(self) -> Engine:
        """One on the same stream, with a pool of its own."""
        return GraphEngine(self._stream)

    def captured(
        self, segment: Segment, inputs: Sequence[Tensor], output: Tensor | None = None
    ) -> tuple[Compute, Tensor]:
        """The segment's kernels, and one that copies its result if it must lie elsewhere.

        Raises:
          RuntimeError: if the segment waits for the GPU or does anything else that a graph cannot;
            torch.OutOfMemoryError if the memory does not suffice.
        """
        reads = tuple(inputs)
        with torch.cuda.stream(self._stream):
            for _ in range(CAPTURE_WARM_UP):
                result, altered = tried(segment, reads)
            if is_view(result, reads) and not altered:
                return nothing, result
            del result

            def compute() -> Tensor:
                value = segment(*reads)
                if output is None or is_view(value, reads):
                    return value
                return output.copy_(value)

            captured = self.capture(compute)
            captured.graph.replay()  # the next segment's inputs then hold an example
            self._stream.synchronize()
        return captured.graph.replay, captured.output

    def capture(self, compute: Callable[[], Output]) -> CapturedGraph[Output]:
        """Capture what `compute` launches on the engine's stream.

        Earlier graphs of this engine stay valid if this raises.

        Raises:
          BaseException: whatever `compute` raises; RuntimeError if it cannot be captured.
        """
        graph = torch.cuda.CUDAGraph()
        try:
            output = self._capture(graph, compute)
        except BaseException:
            self._mend(graph)
            raise
        self._first = self._first or graph
        return CapturedGraph(graph, compute, output)

    def _capture(self, graph: torch.cuda.CUDAGraph, compute: Callable[[], Output]) -> Output:
        """`torch.cuda.graph` would wait for the whole device and empty torch's cache each time."""
        with (
            torch.cuda.stream(self._stream),
            torch.inference_mode(mode=False),
            torch.no_grad(),
            _no_garbage_collection(),
        ):
            self._stream.synchronize()
            graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
            output = compute()
            graph.capture_end()
        return output

    def _mend(self, failed: torch.cuda.CUDAGraph) -> None:
        """Ends a capture, in whatever state it is, and goes on with another pool.

        A capture that CUDA holds invalid cannot be ended in torch (2.11): its allocators go on
        recording to the pool, and its generator of random numbers believes in a capture until one
        has succeeded.
        """
        device = self._stream.device_index
        try:
            with torch.cuda.stream(self._stream):
                failed.capture_end()
        except (RuntimeError, Warning):
            _BROKEN.append(failed)
            with suppress(AttributeError, RuntimeError):
                torch._C._cuda_endAllocateToPool(device, self._pool)  # noqa: SLF001 - as torch's own trees of graphs do
                torch._C._cuda_releasePool(device, self._pool)  # noqa: SLF001 - likewise
        self._pool = torch.cuda.graph_pool_handle()
        self._first = None
        sound = torch.cuda.CUDAGraph()
        with suppress(RuntimeError):  # the GPU itself is lost, which is being raised already
            self._capture(sound, lambda: torch.zeros(1, device=self.device))
            self._first = sound


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """What dies in a capture may call CUDA, and so spoil it."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
