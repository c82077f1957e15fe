"""Hogs of a GPU's memory and of its bus: threads of this process, each with a stream and a core.

Another process would not do: without a daemon that merges them, processes take turns on a GPU.
"""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from threading import Event, Thread
from typing import final

import torch

from runtime.contention.hogs.hog import Hog, Place, RunningHog
from runtime.contention.hogs.python_hog import hog_on
from runtime.network.cuda.graph import GraphEngine
from runtime.network.cuda.sm_slices import GRAIN, SmSlice, SmSlices
from runtime.network.cuda.stream_pool import StreamPool, stream_pool

_READY_S = 60.0
_PIECE = 2**26
"""Bytes of one kernel's input, and as many of its output: each beyond the GPU's caches."""
_PIECES = 4
_FIRST = -5
"""A stream's priority: torch and the driver take the nearest that they have."""
_UNDER_WAY = 8
"""Graphs at once: the GPU never waits for the thread."""


def check_gpu() -> None:
    """Refuses what needs a GPU.

    Raises:
      ValueError: if there is none.
    """
    if not torch.cuda.is_available():
        raise ValueError(
            "a GPU's hog needs a CUDA device, and torch finds none here; hogs of the CPU's memory "
            "and of disks run without"
        )


def cut(victim_sms: int, device: int = 0) -> SmSlices:
    """The GPU in two: multiprocessors of the network, and the rest.

    Raises:
      ValueError: if there is no GPU or it cannot be cut like this.
    """
    check_gpu()
    most = torch.cuda.get_device_properties(device).multi_processor_count
    if victim_sms % GRAIN or not 0 < victim_sms < most - GRAIN:
        raise ValueError(
            f"victim_sms={victim_sms} must be a multiple of {GRAIN} that leaves the hogs some of the "
            f"GPU's {most}"
        )
    return SmSlices([victim_sms, most - victim_sms], device)


def victim_streams(slices: Sequence[SmSlice], *, is_first: bool) -> tuple[StreamPool, int]:
    """The network's, of its slice where there are slices; and its priority, the highest if first.

    Raises:
      ValueError: if there is no GPU.
    """
    check_gpu()
    return (slices[0].streams if slices else stream_pool(0)), _FIRST if is_first else 0


@final
@dataclass(frozen=True)
class GpuMemoryHog(Hog):
    """Streaming kernels in a captured graph; what they read and what they write counts."""

    core: int | None = None
    gb_per_s: float = math.inf
    kernels: int = 1  # of a launch, and so of a burst: each moves 128 MB

    @property
    def name(self) -> str:
        """For tables."""
        return "gpu_memory"

    def start(self, place: Place, number: int) -> RunningHog:
        """Takes 512 MB of the GPU's memory."""
        check_gpu()
        return _HogThread(place, number, self.core, partial(_streaming, self.kernels))


@final
@dataclass(frozen=True)
class PcieHog(Hog):
    """Copies from pinned memory to the GPU, by its copy engine.

    One after the other. An engine may serve whoever has the next copy ready before it turns to another
    stream: with two under way an H200 did 3 uploads of another stream in 5 s, beside 37,000 of the
    hog's, and with eight none in 15 s.
    """

    core: int | None = None
    gb_per_s: float = math.inf
    under_way: int = 1

    @property
    def name(self) -> str:
        """For tables."""
        return "pcie"

    def start(self, place: Place, number: int) -> RunningHog:
        """Pins 16 MB."""
        check_gpu()
        return _HogThread(place, number, self.core, _copying, self.under_way)


def start_network(place: Place, number: int, network: str, core: int | None) -> RunningHog:
    """A network of `runtime.contention.hogs.victims` as a captured graph, again and again.

    Raises:
      ValueError: if it does not start.
    """
    from runtime.contention.hogs.victims import beside_on_gpu  # noqa: PLC0415 - of this hog only

    check_gpu()
    return _HogThread(place, number, core, partial(beside_on_gpu, network))


def _streaming(kernels: int, stream: torch.cuda.Stream) -> tuple[Callable[[], object], int]:
    # A kernel, not a copy: a slice's kernels stay on the slice's multiprocessors.
    source = torch.randn(_PIECES, _PIECE // 4, device=stream.device)
    target = torch.empty_like(source)
    stream.wait_stream(torch.cuda.current_stream(stream.device))

    def launch(first: int) -> None:
        for k in range(first, first + kernels):
            torch.neg(source[k % _PIECES], out=target[k % _PIECES])

    with torch.cuda.stream(stream):
        launch(0)
    graphs = [GraphEngine(stream).capture(partial(launch, k)) for k in range(_PIECES)]
    turns = cycle(graphs)

    def next_one() -> None:
        next(turns)()

    return next_one, 2 * _PIECE * kernels


def _copying(stream: torch.cuda.Stream) -> tuple[Callable[[], object], int]:
    source = torch.ones(_PIECE // 16, dtype=torch.float32).pin_memory()
    target = torch.empty_like(source, device=stream.device)
    stream.wait_stream(torch.cuda.current_stream(stream.device))
    return (lambda: target.copy_(source, non_blocking=True)), source.nbytes


@final
class _HogThread(RunningHog):
    def __init__(
        self,
        place: Place,
        number: int,
        core: int | None,
        make: Callable[[torch.cuda.Stream], tuple[Callable[[], object], int]],
        under_way: int = _UNDER_WAY,
    ) -> None:
        self._place, self._number, self._core, self._make = place, number, core, make
        self._most_under_way = under_way
        self._ready, self._over = Event(), Event()
        self._error: BaseException | None = None
        self._thread = Thread(target=self._run, daemon=True, name=f"GPU hog {number}")
        self._thread.start()
        if not self._ready.wait(_READY_S):
            self._over.set()
            self._error = TimeoutError(f"nothing was heard of it in {_READY_S:g} s")
        if self._error is not None:
            raise ValueError(f"a GPU's hog did not start: {self._error}") from self._error

    @property
    def process_id(self) -> None:
        return None

    @property
    def fault(self) -> str | None:
        return None if self._error is None else str(self._error)

    def close(self) -> None:
        self._over.set()
        self._thread.join(_READY_S)
        if self._thread.is_alive():
            raise RuntimeError(f"a GPU's hog has not ended in {_READY_S:g} s: the GPU is silent")

    def _run(self) -> None:
        try:
            if self._core is not None:
                os.sched_setaffinity(0, {self._core})  # this thread's only
            stock = self._place.slice.streams if self._place.slice else stream_pool(0)
            stream = stock.take()
            move, piece = self._make(stream)
            stream.synchronize()
        except BaseException as error:  # noqa: BLE001 - raised where the hog was asked for
            self._error = error
            return
        finally:
            self._ready.set()
        under_way: deque[torch.cuda.Event] = deque()

        def launched() -> None:
            with torch.cuda.stream(stream):
                move()
                event = torch.cuda.Event()
                event.record()
            under_way.append(event)
            if len(under_way) >= self._most_under_way:
                under_way.popleft().synchronize()  # Python's lock is free meanwhile

        try:
            hog_on(self._place.page, self._number, launched, piece, self._over.is_set)
            stream.synchronize()
        except RuntimeError as error:  # the GPU is lost
            self._error = error
            return
        stock.give_back(stream)
