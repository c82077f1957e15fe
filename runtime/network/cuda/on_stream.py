"""A network on one stream of a GPU: each call waits for that stream, and for nothing else there.

What else runs on the device, hogs or other networks, then counts only as far as it slows this one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

from runtime.network.cuda.captured import Kept
from runtime.network.cuda.graph import CAPTURE_WARM_UP, GraphEngine


def on_stream(
    eager: Callable[[], torch.Tensor], stream: torch.cuda.Stream, *, captured: bool
) -> Callable[[], object]:
    """The same on a stream, captured as one graph or as it is.

    Args:
      eager: one inference; what it reads lies on the stream's device and is written no more.
      stream: perhaps of a slice of the multiprocessors, perhaps with a priority.
      captured: whether calls replay a graph, whose one output each of them overwrites.
    """
    torch.cuda.current_stream(stream.device).synchronize()
    for _ in range(CAPTURE_WARM_UP):
        _waited(stream, eager)
    if not captured:
        return partial(_waited, stream, eager)
    engine = GraphEngine(stream)
    replay, output = engine.recorded(eager)
    return partial(_waited, stream, Kept(replay, (engine, eager, output)))


def _waited(stream: torch.cuda.Stream, work: Callable[[], object]) -> object:
    with torch.cuda.stream(stream), torch.no_grad():
        output = work()
    stream.synchronize()
    return output
