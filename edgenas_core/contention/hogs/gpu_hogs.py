"""Hogs of a GPU's memory and of the PCIe bus: threads of this process, each with its own stream.

They are not processes because processes take turns on a GPU without the MPS daemon.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle
from threading import Event, Thread
from typing import final

import torch

from edgenas_core.contention.hogs.hog import Hog, HogContext, RunningHog
from edgenas_core.contention.hogs.python_hog import run_hog
from edgenas_core.inference.cuda.graph import GraphCapture
from edgenas_core.inference.cuda.sm_slices import GRAIN, SmSlice, SmSlices
from edgenas_core.inference.cuda.stream_pool import StreamPool, stream_pool

_READY_S = 60.0
_PIECE = 2**26
"""Bytes of the input and of the output of one kernel; each exceeds the GPU's caches."""
_PIECES = 4
_HIGHEST_PRIORITY = -5
"""Priority of a stream; torch and the driver take the nearest supported one."""
_IN_FLIGHT = 8
"""Launched graphs at a time, so that the GPU never waits for the thread."""


def check_gpu() -> None:
    """Check that there is a GPU.

    Raises:
      ValueError: if there is none.
    """
    if not torch.cuda.is_available():
        raise ValueError(
            "a GPU hog needs a CUDA device, and torch finds none; use CPU hogs: memory, spin"
        )


def partition(victim_sms: int) -> SmSlices:
    """Divide the GPU in two: the network's multiprocessors, and the rest.

    Raises:
      ValueError: if there is no GPU, or it cannot be divided like this.
    """
    check_gpu()
    most = torch.cuda.get_device_properties(0).multi_processor_count
    if victim_sms % GRAIN or not 0 < victim_sms < most - GRAIN:
        raise ValueError(
            f"victim_sms={victim_sms} must be a multiple of {GRAIN} that leaves some of the GPU's "
            f"{most} multiprocessors to the hogs"
        )
    return SmSlices([victim_sms, most - victim_sms])


def victim_streams(slices: Sequence[SmSlice], *, is_first: bool) -> tuple[StreamPool, int]:
    """Return the stream pool of the network (of its slice, if any), and the priority to use.

    Raises:
      ValueError: if there is no GPU.
    """
    check_gpu()
    pool = slices[0].streams if slices else stream_pool(0)
    return pool, _HIGHEST_PRIORITY if is_first else 0


@final
@dataclass(frozen=True)
class GpuMemoryHog(Hog):
    """Takes bandwidth of the GPU's memory, by streaming kernels; reads and writes are counted."""

    name: str = field(default="gpu_memory", init=False)

    def start(self, context: HogContext, number: int) -> RunningHog:
        """Start the hog, which allocates 512 MB of GPU memory."""
        check_gpu()
        return _HogThread(context, number, self.core, _streaming)


@final
@dataclass(frozen=True)
class PcieHog(Hog):
    """Copies from pinned memory to the GPU by its copy engine, one copy at a time.

    A copy engine may serve the same stream again if its next copy is ready: with two copies in
    flight an H200 did 3 uploads of another stream in 5 s beside 37,000 of the hog, and with eight
    none in 15 s.
    """

    name: str = field(default="pcie", init=False)

    def start(self, context: HogContext, number: int) -> RunningHog:
        """Start the hog, which pins 16 MB of host memory."""
        check_gpu()
        return _HogThread(context, number, self.core, _copying, in_flight=1)


def start_network(context: HogContext, number: int, network: str, core: int | None) -> RunningHog:
    """Run a network of `edgenas_core.contention.networks` in a loop, as a captured graph.

    Raises:
      ValueError: if it does not start.
    """
    from edgenas_core.contention.networks import load_on_gpu  # noqa: PLC0415 - of this hog only

    check_gpu()
    return _HogThread(context, number, core, partial(load_on_gpu, network))


def _streaming(stream: torch.cuda.Stream) -> tuple[Callable[[], object], int]:
    # A kernel, not a copy: kernels stay on the multiprocessors of their slice.
    source = torch.randn(_PIECES, _PIECE // 4, device=stream.device)
    target = torch.empty_like(source)
    stream.wait_stream(torch.cuda.current_stream(stream.device))

    def launch(k: int) -> None:
        torch.neg(source[k], out=target[k])

    with torch.cuda.stream(stream):
        launch(0)
    graphs = [GraphCapture(stream).capture(partial(launch, k)) for k in range(_PIECES)]
    turns = cycle(graphs)

    def next_one() -> None:
        next(turns)()

    return next_one, 2 * _PIECE


def _copying(stream: torch.cuda.Stream) -> tuple[Callable[[], object], int]:
    source = torch.ones(_PIECE // 16, dtype=torch.float32).pin_memory()
    target = torch.empty_like(source, device=stream.device)
    stream.wait_stream(torch.cuda.current_stream(stream.device))
    return (lambda: target.copy_(source, non_blocking=True)), source.nbytes


@final
class _HogThread(RunningHog):
    def __init__(
        self,
        context: HogContext,
        number: int,
        core: int | None,
        make: Callable[[torch.cuda.Stream], tuple[Callable[[], object], int]],
        in_flight: int = _IN_FLIGHT,
    ) -> None:
        self._context, self._number, self._core, self._make = context, number, core, make
        self._most_in_flight = in_flight
        self._ready, self._over = Event(), Event()
        self._error: BaseException | None = None
        self._thread = Thread(target=self._run, daemon=True, name=f"GPU hog {number}")
        self._thread.start()
        if not self._ready.wait(_READY_S):
            self._over.set()
            self._error = TimeoutError(f"no reply within {_READY_S:g} s")
        if self._error is not None:
            raise ValueError(f"a GPU hog did not start: {self._error}") from self._error

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
            raise RuntimeError(f"a GPU hog did not end within {_READY_S:g} s: the GPU hangs")

    def _run(self) -> None:
        try:
            if self._core is not None:
                os.sched_setaffinity(0, {self._core})  # this thread's only
            pool = self._context.slice.streams if self._context.slice else stream_pool(0)
            stream = pool.take()
            move, piece = self._make(stream)
            stream.synchronize()
        except BaseException as error:  # noqa: BLE001 - `__init__` raises it
            self._error = error
            return
        finally:
            self._ready.set()
        in_flight: deque[torch.cuda.Event] = deque()

        def launched() -> None:
            with torch.cuda.stream(stream):
                move()
                event = torch.cuda.Event()
                event.record()
            in_flight.append(event)
            if len(in_flight) >= self._most_in_flight:
                in_flight.popleft().synchronize()  # releases the GIL

        try:
            run_hog(self._context.page, self._number, launched, piece, self._over.is_set)
            stream.synchronize()
        except RuntimeError as error:  # an error of the GPU
            self._error = error
            return
        pool.give_back(stream)
