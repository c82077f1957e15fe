"""StreamPool of a GPU that are used again."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import final

import torch

_OF_TORCH = 32
"""StreamPool of a priority that torch makes."""


@final
class StreamPool:
    """A stock of streams of one kind.

    StreamPool are not thrown away: torch keeps cuBLAS's workspace of every stream it has seen, 32 MB on
    a Hopper, and memory remembers the streams it was used on, which must be there when it is freed.
    """

    def __init__(self, make: Callable[[int], torch.cuda.Stream]) -> None:
        """None is made.

        Args:
          make: a stream of this priority.
        """
        self._make = make
        self._lent: dict[torch.cuda.Stream, int] = {}
        self._spare: dict[int, list[torch.cuda.Stream]] = {}
        """By priority."""

    def take(self, priority: int = 0) -> torch.cuda.Stream:
        """A stream that nobody else has; lower priorities come first."""
        spare = self._spare.setdefault(priority, [])
        stream = spare.pop() if spare else self._make(priority)
        self._lent[stream] = priority
        return stream

    def give_back(self, stream: torch.cuda.Stream) -> None:
        """For others to take; nothing happens if it was called back already."""
        priority = self._lent.pop(stream, None)
        if priority is not None:
            self._spare[priority].append(stream)

    def reclaim(self) -> None:
        """Waits for all streams that are lent, and takes them back."""
        for stream in [*self._lent]:
            stream.synchronize()
            self.give_back(stream)


@cache
def stream_pool(device: int) -> StreamPool:
    """Those on all multiprocessors of a GPU; more than 32 of a priority need cuda-bindings."""
    known: set[torch.cuda.Stream] = set()

    def made(priority: int) -> torch.cuda.Stream:
        for _ in range(_OF_TORCH):  # which then gives them out again, to two lanes at once
            stream: torch.cuda.Stream = torch.cuda.Stream(device, priority=priority)
            if stream not in known:
                known.add(stream)
                return stream
        return _beyond_torch(device, priority)

    return StreamPool(made)


def _beyond_torch(device: int, priority: int) -> torch.cuda.Stream:
    try:
        from cuda.bindings import runtime  # noqa: PLC0415 - only who needs so many streams needs it
    except ImportError as error:
        raise RuntimeError(
            f"torch has {_OF_TORCH} streams; more need the package cuda-bindings, of the CUDA "
            "version of torch"
        ) from error
    with torch.cuda.device(device):
        flag = runtime.cudaStreamNonBlocking
        status, stream = runtime.cudaStreamCreateWithPriority(flag, priority)
    if int(status) != 0:
        raise RuntimeError(f"CUDA makes no further stream: {status.name}")
    return torch.cuda.ExternalStream(int(stream), device=f"cuda:{device}")
