"""Pools of reusable CUDA streams."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import final

import torch

_STREAMS_OF_TORCH = 32
"""Number of streams that torch has per priority."""


@final
class StreamPool:
    """Streams of one kind that are reused and never destroyed.

    torch keeps a cuBLAS workspace for every stream it has seen, 32 MB on Hopper, and freed memory
    refers to the streams that used it, which must still exist then.
    """

    def __init__(self, make: Callable[[int], torch.cuda.Stream]) -> None:
        self._make = make
        self._lent: dict[torch.cuda.Stream, int] = {}
        self._spare: dict[int, list[torch.cuda.Stream]] = {}
        """Unused streams, by priority."""

    def take(self, priority: int = 0) -> torch.cuda.Stream:
        """Return a stream for exclusive use; a lower number is a higher priority."""
        spare = self._spare.setdefault(priority, [])
        stream = spare.pop() if spare else self._make(priority)
        self._lent[stream] = priority
        return stream

    def give_back(self, stream: torch.cuda.Stream) -> None:
        """Return a stream to the pool; no effect if it is already there."""
        priority = self._lent.pop(stream, None)
        if priority is not None:
            self._spare[priority].append(stream)

    def reclaim(self) -> None:
        """Wait for all streams in use and return them to the pool."""
        for stream in [*self._lent]:
            stream.synchronize()
            self.give_back(stream)


@cache
def stream_pool(device: int) -> StreamPool:
    """Return the pool of a GPU's unrestricted streams; over 32 per priority need cuda-bindings."""
    distinct: set[torch.cuda.Stream] = set()

    def made(priority: int) -> torch.cuda.Stream:
        for _ in range(
            _STREAMS_OF_TORCH
        ):  # torch then repeats its streams, which two lanes must not share
            stream: torch.cuda.Stream = torch.cuda.Stream(device, priority=priority)
            if stream not in distinct:
                distinct.add(stream)
                return stream
        return _beyond_torch(device, priority)

    return StreamPool(made)


def _beyond_torch(device: int, priority: int) -> torch.cuda.Stream:
    try:
        from cuda.bindings import runtime  # noqa: PLC0415 - optional dependency
    except ImportError as error:
        raise RuntimeError(
            f"torch has {_STREAMS_OF_TORCH} streams; more need the package cuda-bindings, of the CUDA "
            "version of torch"
        ) from error
    with torch.cuda.device(device):
        flag = runtime.cudaStreamNonBlocking
        status, stream = runtime.cudaStreamCreateWithPriority(flag, priority)
    if int(status) != 0:
        raise RuntimeError(f"CUDA cannot create another stream: {status.name}")
    return torch.cuda.ExternalStream(int(stream), device=f"cuda:{device}")
