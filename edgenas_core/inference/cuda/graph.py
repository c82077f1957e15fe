"""Captured CUDA graphs: one launch for any number of kernels."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Generic, TypeVar, final

import torch

CAPTURE_WARM_UP = 3
"""Eager calls before a capture, which torch requires: cuDNN chooses its kernels in them."""

Output = TypeVar("Output")

_BROKEN: list[torch.cuda.CUDAGraph] = []
"""Graphs whose capture could not be ended; torch's allocator of pinned memory still queries them,
so they must not be freed."""


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


class GraphCapture:
    """Captures graphs on one stream; replay them on that stream.

    All its graphs share a memory pool: one graph's temporary values may lie where a later
    graph has its output. So they must belong to one network and be replayed one at a time, in the
    order of their capture.
    """

    def __init__(self, stream: torch.cuda.Stream) -> None:
        """Use a stream other than the default one, which cannot capture."""
        self._stream = stream
        self.device = stream.device
        self._pool = torch.cuda.graph_pool_handle()
        self._first: torch.cuda.CUDAGraph | None = None
        """Keeps the pool alive: torch does not reuse a pool whose graphs have all been freed."""

    def capture(self, compute: Callable[[], Output]) -> CapturedGraph[Output]:
        """Capture what `compute` launches on the stream.

        Earlier graphs stay valid if this raises.

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
        """Capture like `torch.cuda.graph`, which would also synchronise the device and empty the cache."""
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
        """End a failed capture and continue with a new pool.

        torch (2.11) cannot end a capture that CUDA has invalidated: its allocators keep recording to
        the pool, and its random number generator stays in capture mode until a capture succeeds.
        """
        device = self._stream.device_index
        try:
            with torch.cuda.stream(self._stream):
                failed.capture_end()
        except (RuntimeError, Warning):
            _BROKEN.append(failed)
            with suppress(AttributeError, RuntimeError):
                torch._C._cuda_endAllocateToPool(device, self._pool)  # noqa: SLF001 - as torch's CUDA graph trees do
                torch._C._cuda_releasePool(device, self._pool)  # noqa: SLF001 - torch has no public name for it
        self._pool = torch.cuda.graph_pool_handle()
        self._first = None
        sound = torch.cuda.CUDAGraph()
        try:
            number = torch.zeros(1, device=self.device)  # the new pool would take megabytes for it
            self._capture(sound, lambda: number.add_(1))
            self._first = sound
        except RuntimeError:
            # memory is short, or the GPU is lost: that error is already being raised
            with suppress(RuntimeError), torch.cuda.stream(self._stream):
                sound.capture_end()  # a stream that captures forbids this thread most calls of CUDA


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Disable garbage collection: a finalizer that calls CUDA would invalidate the capture."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
