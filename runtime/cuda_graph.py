"""Segments as captured CUDA graphs: one launch a segment, whatever the number of its kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar, final

import torch
from torch import Tensor

from runtime.completion import Compute
from runtime.engine import Engine, is_view, nothing, tried
from runtime.inference import CAPTURE_WARM_UP
from runtime.program import Segment

Written = TypeVar("Written")


@final
class GraphEngine(Engine):
    """Captures on one stream, and replays on whichever is current: that one, to be safe.

    All graphs of an engine share a pool of memory. That is right as long as they are replayed on
    one stream, where no two of them run at once, and as long as what they gave is kept.
    """

    def __init__(self, stream: torch.cuda.Stream) -> None:
        """Of a stream that may not be the default one, on which nothing can be captured."""
        self._stream = stream
        self._pool = torch.cuda.graph_pool_handle()

    @property
    def device(self) -> torch.device:
        """The stream's."""
        return self._stream.device

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

            replay, written = self.recorded(compute)
            replay()  # so that who is captured next finds an example
            self._stream.synchronize()
        return replay, written

    def recorded(self, compute: Callable[[], Written]) -> tuple[Compute, Written]:
        """A replay of what `compute` launches on the engine's stream, and what it gave.

        `torch.cuda.graph` would wait for the whole device and empty torch's cache at every capture.
        """
        graph = torch.cuda.CUDAGraph()
        with (
            torch.cuda.stream(self._stream),
            torch.inference_mode(mode=False),
            torch.no_grad(),
        ):
            self._stream.synchronize()
            graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
            try:
                written = compute()
            except BaseException:
                with suppress(RuntimeError):  # the capture is invalid, which is known already
                    graph.capture_end()
                raise
            graph.capture_end()
        return graph.replay, written
