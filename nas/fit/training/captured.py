"""A training's place on a GPU: its stream, and its step as a CUDA graph, one launch instead of 1,600."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, final

import torch

from edgenas_core.types.errors import gpu_memory_line
from nas.fit.training.device import Kernels, computed_by, freed_memory_kept
from nas.fit.training.step import Step, copy_state, restore

if TYPE_CHECKING:
    from edgenas_core.inference.cuda.graph import GraphCapture

os.environ.setdefault(
    "CUDA_DEVICE_MAX_CONNECTIONS", "32"
)  # streams that do not wait for each other


@final
class GpuSlot:
    """A CUDA stream, and the memory of the graphs that are captured on it, one training at a time."""

    def __init__(self, device: torch.device, kernels: Kernels) -> None:
        """Takes a stream of a GPU with an index."""
        from edgenas_core.inference.cuda.graph import GraphCapture  # noqa: PLC0415 - of CUDA alone
        from edgenas_core.inference.cuda.stream_pool import stream_pool  # noqa: PLC0415 - of CUDA alone

        self._device = device
        self.kernels = kernels
        """Choice of kernels for what is trained here, from the next `current` on."""
        self._streams = stream_pool(device.index)
        self._stream = self._streams.take()
        self._stream.wait_stream(torch.cuda.default_stream(device))  # the images are uploaded there
        self._engine: GraphCapture = GraphCapture(self._stream)

    @contextmanager
    def current(self) -> Iterator[None]:
        """Run a block on the stream, by its kernels."""
        with (
            torch.cuda.device(self._device),
            torch.cuda.stream(self._stream),
            computed_by(self.kernels, self._device),
        ):
            yield

    def capture(self, step: Step) -> Callable[[], None]:
        """Capture a step; calling the result replays it. Call this within `current`, after a segment is loaded.

        State and counters are as before. What was captured here earlier is not to be replayed any
        more: its memory is used again.

        Raises:
          torch.OutOfMemoryError: if there is too little memory.
          RuntimeError: if the network does anything that cannot be captured.
        """
        from edgenas_core.inference.cuda.graph import CAPTURE_WARM_UP  # noqa: PLC0415 - of CUDA alone

        before = copy_state(step.state())
        for _ in range(CAPTURE_WARM_UP):
            step()
            restore(step.state(), before)
        try:
            return self._engine.capture(step).replay
        except RuntimeError as error:
            if gpu_memory_line(error) is None:
                raise
        torch.cuda.empty_cache()  # a graph cannot use what the eager steps left there
        restore(step.state(), before)
        return self._engine.capture(step).replay

    def mark(self) -> torch.cuda.Event:
        """An event that has passed once all that was launched so far has ended."""
        event = torch.cuda.Event()
        event.record(self._stream)
        return event

    def close(self) -> None:
        """Wait for the stream and give it back."""
        self._stream.synchronize()
        self._streams.give_back(self._stream)


@contextmanager
def opened_slot(device: torch.device, kernels: Kernels) -> Iterator[GpuSlot | None]:
    """Open a slot and run the block on its stream; None on a CPU, where freed memory is kept."""
    if device.type != "cuda":
        with freed_memory_kept():
            yield None
        return
    slot = GpuSlot(device, kernels)
    try:
        with slot.current():
            yield slot
    finally:
        slot.close()
