"""Buffers under a policy: written by the host, used by a job of a GPU, and read back by the host."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import final

import torch

from benchmarks.placement.buffers.managed import ManagedMemory
from benchmarks.placement.model.policy import MemoryPolicy
from benchmarks.placement.model.workload import Compute
from edgenas_runtime.network.graph_engine import GraphEngine
from edgenas_runtime.network.mapped_memory import on_gpu, pinned_like

PAGE = 4096
"""Bytes of a page of the host."""

_HEAD_START_CYCLES = 200_000
"""Cycles for which the GPU waits, about 0.1 ms, so that launch overhead is not timed."""


@final
class GpuBuffer:
    """A buffer on a real GPU. Copies and kernels of a job are one captured graph."""

    def __init__(self, policy: MemoryPolicy, elements: int, stream: torch.cuda.Stream) -> None:
        """Allocate the memory, filled with zeros.

        Raises:
          ValueError: if managed memory exceeds its limit (`managed.py`).
          RuntimeError: if the memory cannot be allocated.
        """
        self.policy = policy
        self._stream = stream
        self._engine = GraphEngine(stream)
        self._nbytes = 4 * elements
        self._managed: ManagedMemory | None = None
        if policy is MemoryPolicy.MANAGED:
            self._managed = ManagedMemory(self._nbytes, stream.device)
            self.host, self.device = self._managed.host, self._managed.device
        else:
            self.host = pinned_like(torch.empty(elements))
            self.device = (
                on_gpu(self.host, stream.device)
                if policy is MemoryPolicy.PINNED
                else torch.empty(elements, device=stream.device)
            )
        self.host.zero_()

    def launcher(
        self, compute: Compute, *, returns: bool, stream: torch.cuda.Stream | None = None
    ) -> Callable[[], None]:
        """Capture the job as a graph for a stream.

        The stream is by default that of the buffer.
        """
        on = self._stream if stream is None else stream
        engine = self._engine if stream is None else GraphEngine(stream)

        def whole() -> None:
            if self.policy is MemoryPolicy.DEVICE:
                self.device.copy_(self.host, non_blocking=True)
            compute(self.device)
            if self.policy is MemoryPolicy.DEVICE and returns:
                self.host.copy_(self.device, non_blocking=True)

        with torch.cuda.stream(on):
            compute(self.device)  # what is loaded lazily cannot be captured
            on.synchronize()
            self.host.zero_()
            return engine.capture(whole).replay

    def job(self, compute: Compute, *, returns: bool) -> Callable[[], float]:
        """Time by the GPU's clock; for managed memory plus the host's first touch afterwards."""
        once = timed(self.launcher(compute, returns=returns), self._stream)

        def whole() -> float:
            self.write()
            took_ms = once()
            if self._managed is None or not returns:
                return took_ms
            began_s = time.perf_counter()
            self.read()
            return took_ms + 1e3 * (time.perf_counter() - began_s)

        return whole

    def resident(self, compute: Compute) -> Callable[[], float]:
        """The job without data transfers: the kernels alone."""

        def alone() -> None:
            compute(self.device)

        with torch.cuda.stream(self._stream):
            compute(self.device)
            self._stream.synchronize()
            return timed(self._engine.capture(alone).replay, self._stream)

    def write(self) -> None:
        """The host writes an element of each page; managed pages come to it, all others were there."""
        if self._managed is not None:
            self.host[:: PAGE // 4].add_(0.0)

    def read(self) -> None:
        """The host reads an element of each page; managed pages come to it, all others were there."""
        if self._managed is not None:
            self.host[:: PAGE // 4].sum()

    def close(self) -> None:
        """Wait for the stream, and free the memory."""
        self._stream.synchronize()
        del self.host, self.device
        if self._managed is not None:
            self._managed.close()


def timed(launch: Callable[[], None], stream: torch.cuda.Stream) -> Callable[[], float]:
    """Return a function that launches on the stream and returns ms by the GPU's clock."""
    begin = torch.cuda.Event(enable_timing=True)
    end = torch.cuda.Event(enable_timing=True)

    def once() -> float:
        with torch.cuda.stream(stream):
            torch.cuda._sleep(_HEAD_START_CYCLES)  # noqa: SLF001 - torch's own tests use it
            begin.record(stream)
            launch()
            end.record(stream)
        end.synchronize()
        return float(begin.elapsed_time(end))

    return once
