"""Inference on one CUDA stream: each call waits for that stream and for no other.

Other work on the device (hogs, other networks) then counts only as far as it slows this network down.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

from edgenas_core.inference.cuda.graph import CAPTURE_WARM_UP, GraphCapture


def on_stream(
    eager: Callable[[], torch.Tensor], stream: torch.cuda.Stream, *, captured: bool
) -> Callable[[], object]:
    """Return a callable that runs one inference on a stream, waits for it and returns its output.

    Args:
      eager: one inference; its inputs are on the stream's device and are not changed any more.
      stream: any stream, also one of an SM slice or with a priority.
      captured: whether a call replays a CUDA graph; all calls then return one output tensor, which
        each of them overwrites.
    """
    torch.cuda.current_stream(stream.device).synchronize()
    for _ in range(CAPTURE_WARM_UP):
        _waited(stream, eager)
    if not captured:
        return partial(_waited, stream, eager)
    return partial(_waited, stream, GraphCapture(stream).capture(eager))


def _waited(stream: torch.cuda.Stream, work: Callable[[], object]) -> object:
    with torch.cuda.stream(stream), torch.no_grad():
        output = work()
    stream.synchronize()
    return output
