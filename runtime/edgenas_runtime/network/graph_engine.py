"""Segments as captured CUDA graphs: one launch per segment, for any number of kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor

from edgenas_core.inference.cuda.graph import CAPTURE_WARM_UP, GraphCapture
from edgenas_runtime.network.completion import Compute
from edgenas_runtime.network.engine import Engine, is_view, no_op, run_example
from edgenas_runtime.network.program import Segment


@final
class GraphEngine(GraphCapture, Engine):
    """Captures each segment on one stream, on which the graphs are replayed."""

    def for_network(self) -> Engine:
        """Return an engine on the same stream with its own memory pool."""
        return GraphEngine(self._stream)

    def compile(
        self, segment: Segment, inputs: Sequence[Tensor], output: Tensor | None = None
    ) -> tuple[Compute, Tensor]:
        """Capture the segment's kernels, and a copy of the result if `output` is given.

        Raises:
          RuntimeError: if the segment synchronises or does anything else that cannot be captured;
            torch.OutOfMemoryError if there is too little memory.
        """
        reads = tuple(inputs)
        with torch.cuda.stream(self._stream):
            for _ in range(CAPTURE_WARM_UP):
                result, altered = run_example(segment, reads)
            if is_view(result, reads) and not altered:
                return no_op, result
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
