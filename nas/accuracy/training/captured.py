"""A training step as one CUDA graph: one launch instead of a thousand."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from nas.accuracy.training.step import Step, copied, restore

CAPTURE_WARM_UP = 3
"""Eager steps before a capture: cuDNN chooses its kernels in them."""

_CAPTURING = threading.Lock()
"""Captures of several threads would share torch's random number generator, and its interpreter anyway."""

os.environ.setdefault(
    "CUDA_DEVICE_MAX_CONNECTIONS", "32"
)  # streams that do not wait for each other


def captured(step: Step) -> Callable[[], None]:
    """Capture a step on the current stream, which a call of the result replays it on.

    The step's segment is loaded. State and counters are as before.

    Raises:
      torch.OutOfMemoryError: if there is too little memory.
      RuntimeError: if the network does anything that cannot be captured.
    """
    from runtime.network.cuda.graph import GraphEngine  # noqa: PLC0415 - of CUDA alone

    before = copied(step.state())
    with _CAPTURING:
        for _ in range(CAPTURE_WARM_UP):
            step()
            restore(step.state(), before)
        torch.cuda.current_stream().synchronize()
        return GraphEngine(torch.cuda.current_stream()).capture(step).replay


@contextmanager
def own_stream(device: torch.device) -> Iterator[None]:
    """Run a block on a stream of its own, after what the caller has launched; not on a CPU."""
    if device.type != "cuda":
        yield
        return
    from runtime.network.cuda.stream_pool import stream_pool  # noqa: PLC0415 - of CUDA alone

    index = torch.cuda.current_device() if device.index is None else device.index
    stream = stream_pool(index).take()
    stream.wait_stream(torch.cuda.default_stream(device))
    try:
        with torch.cuda.device(index), torch.cuda.stream(stream):
            yield
    finally:
        stream.synchronize()
        stream_pool(index).give_back(stream)


@contextmanager
def chosen_kernels(device: torch.device) -> Iterator[None]:
    """Let cuDNN try its kernels once for each shape: those it guesses are slow for few channels."""
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = before or device.type == "cuda"
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before
