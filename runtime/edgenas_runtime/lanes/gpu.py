"""GPU lanes: one CUDA stream each; jobs are launched when they are put, and events mark their ends."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Thread
from typing import final

import torch

from edgenas_core.inference.cuda.sm_slices import SmSlice
from edgenas_core.inference.cuda.stream_pool import stream_pool
from edgenas_core.types.closeable import Closeable
from edgenas_runtime.lanes.base import Began, Ended, Events, RealLane
from edgenas_runtime.network.completion import Completion, Compute, HostCompletion
from edgenas_runtime.network.engine import EagerEngine, Engine
from edgenas_runtime.network.graph_engine import GraphEngine
from edgenas_runtime.scheduling.chain import Lane
from edgenas_runtime.scheduling.dispatcher import Ticket

_ORIGIN_LASTS_S = 3.0
"""After which the clocks may have drifted 0.3 ms apart."""

_DRIFT = 1e-4
"""Bound of the relative drift between the GPU's clock and the host's: 50 millionths for each crystal.

More than 16 millionths were seen on an H100.
"""

_Events = tuple[torch.cuda.Event, torch.cuda.Event]


@final
class CudaCompletion(Completion):
    """Completion of a job on a stream: two events around it, reused after it is deleted.

    The duration is exact to the 0.5 us resolution of events. Start and end are as exact as the
    lane's clock origin, `uncertainty_s`: some microseconds at first, 0.3 ms after three seconds. Two
    lanes have two origins, so the order of two ends closer than both uncertainties is unknown.
    """

    def __init__(self, origin: CudaOrigin, spare: list[_Events], *, spin: bool) -> None:
        """Take or create the events of a job about to be launched.

        Spare events are reused: creating them costs more than recording them, and much more when
        several threads create them. With `spin` waiting spins instead of sleeping.
        """
        self._origin = origin
        self._spare = spare
        try:
            self.begin, self.end = spare.pop()
        except IndexError:
            self.begin = torch.cuda.Event(enable_timing=True)
            self.end = torch.cuda.Event(enable_timing=True, blocking=not spin)

    def __del__(self) -> None:
        self._spare.append((self.begin, self.end))

    def wait(self) -> None:
        """Wait for the end event, not for the device; releases the GIL."""
        self.end.synchronize()

    @property
    def error(self) -> None:
        """Always None: GPU errors are raised by waiting for this job or a later one."""

    @property
    def began_s(self) -> float:
        """Start on the GPU, in seconds of `time.perf_counter`."""
        return self._origin.at_s(self.begin)

    @property
    def ended_s(self) -> float:
        """End of the last kernel, in seconds of `time.perf_counter`."""
        return self._origin.at_s(self.end)

    @property
    def uncertainty_s(self) -> float:
        """Common error bound of `began_s` and `ended_s`."""
        return self._origin.uncertainty_s

    @property
    def took_s(self) -> float:
        """Time between the two events."""
        return float(self.begin.elapsed_time(self.end)) / 1e3


@final
class CudaOrigin:
    """One instant on both the GPU clock and the host clock, which drift apart."""

    def __init__(self, stream: torch.cuda.Stream) -> None:
        """Wait for the stream, then record five events and keep the fastest round trip."""
        stream.synchronize()
        quickest_s = math.inf
        for _ in range(5):
            event = torch.cuda.Event(enable_timing=True)
            before_s = time.perf_counter()
            event.record(stream)
            event.synchronize()
            took_s = time.perf_counter() - before_s
            if took_s < quickest_s:
                quickest_s = took_s
                self._event, self._at_s = event, before_s + took_s / 2
        self._error_s = quickest_s / 2

    @property
    def uncertainty_s(self) -> float:
        """Error bound of times read now: half the fastest round trip, plus the drift since."""
        return self._error_s + (_DRIFT + 2**-24) * (time.perf_counter() - self._at_s)

    @property
    def is_old(self) -> bool:
        """Whether a new origin would be more exact."""
        return time.perf_counter() - self._at_s > _ORIGIN_LASTS_S

    def at_s(self, event: torch.cuda.Event) -> float:
        """Return the time of an event in seconds of `time.perf_counter`; NaN if not reached yet."""
        if not event.query():
            return math.nan
        return self._at_s + float(self._event.elapsed_time(event)) / 1e3


@final
@dataclass(frozen=True)
class _Launched:
    ticket: Ticket
    completion: CudaCompletion
    launched_s: float
    events: Events


@final
class GpuLane(RealLane, Closeable):
    """A CUDA stream, optionally with a priority and on some of the GPU's multiprocessors only.

    Use it in a `with` statement. The thread that puts a job launches it; a thread of the lane waits
    for the ends. A launched job cannot be withdrawn.
    """

    def __init__(
        self,
        device: int = 0,
        *,
        name: str | None = None,
        priority: int = 0,
        sms: SmSlice | None = None,
        captured: bool = True,
        spin: bool = False,
    ) -> None:
        """Create the stream.

        Args:
          device: index of the GPU.
          name: name of the lane; None for `gpu<device>`, with the number of multiprocessors if cut.
          priority: lower comes first; `torch.cuda.Stream.priority_range()` gives the range.
          sms: multiprocessors of the lane, which the caller closes; None for all.
          captured: whether jobs are CUDA graphs; else they are eager torch.
          spin: whether waiting for a job spins on a core, which notices the end some microseconds
            earlier.

        Raises:
          RuntimeError: if there is no such GPU.
        """
        self._streams = stream_pool(device) if sms is None else sms.streams
        self.stream = self._streams.take(priority)
        default = f"gpu{device}" if sms is None else f"gpu{device}/sm{sms.count}"
        self.lane = Lane(default if name is None else name, asynchronous=True)
        self.engine: Engine = (
            GraphEngine(self.stream) if captured else EagerEngine(self.stream.device)
        )
        self._launched: SimpleQueue[_Launched | None] = SimpleQueue()
        self._spare: list[_Events] = []
        self._closed = False
        self._spin = spin
        self._origin = CudaOrigin(self.stream)
        self._thread = Thread(target=self._reap, name=self.lane.name, daemon=True)
        self._thread.start()

    def put(
        self,
        ticket: Ticket,
        compute: Compute,
        events: Events,
        after: Completion | None = None,
    ) -> Completion:
        """Launch a job in the calling thread."""
        self._check_open()
        before = torch.cuda.current_stream()
        began_s = time.perf_counter()
        try:
            with torch.inference_mode():
                completion = self._launch(compute, after)
        except Exception as error:  # noqa: BLE001 - an error of a job ends its request only
            failed = HostCompletion()
            failed.end(math.nan, math.nan, error)
            events.put(Ended(ticket, began_s, time.perf_counter(), error))
            return failed
        finally:
            torch.cuda.set_stream(before)
        events.put(Began(ticket, began_s))
        self._launched.put(_Launched(ticket, completion, began_s, events))
        return completion

    def launch(self, compute: Compute, after: Completion | None = None) -> Completion:
        """Launch a job without events; leaves the lane's stream current and gradients as they are.

        Raises:
          RuntimeError: if the lane is closed.
          BaseException: any error of the job before its launch.
        """
        return self._launch(compute, after)

    def _launch(self, compute: Compute, after: Completion | None) -> CudaCompletion:
        self._check_open()
        torch.cuda.set_stream(self.stream)
        if isinstance(after, CudaCompletion):
            self.stream.wait_event(after.end)
        elif after is not None:
            after.wait()
        completion = CudaCompletion(self._origin, self._spare, spin=self._spin)
        completion.begin.record(self.stream)
        compute()
        completion.end.record(self.stream)
        return completion

    def issue(self, compute: Compute) -> None:
        """Launch a job without a completion."""
        torch.cuda.set_stream(self.stream)
        compute()

    def renew_origin(self) -> None:
        """Synchronise the GPU clock with the host clock again; waits for the stream."""
        self._origin = CudaOrigin(self.stream)

    def withdraw(self) -> None:
        """Do nothing: every job put was launched."""

    def close(self, wait_s: float = 10.0) -> bool:
        """Launch no further job and wait for the launched ones; return whether they ended in time."""
        self._closed = True
        self._launched.put(None)
        self._thread.join(wait_s)
        has_ended = not self._thread.is_alive()
        if has_ended:
            self._streams.give_back(self.stream)
        return has_ended

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError(f"lane {self.lane.name} is closed")

    def _reap(self) -> None:
        torch.cuda.set_device(self.stream.device)
        last_s = -math.inf
        while (launched := self._launched.get()) is not None:
            error: BaseException | None = None
            earliest_s = max(launched.launched_s, last_s)
            try:
                launched.completion.wait()
                began_s, ended_s = _ran(launched.completion, earliest_s, time.perf_counter())
            except (
                RuntimeError
            ) as raised:  # an error of the GPU, which all later jobs will raise too
                began_s, ended_s, error = earliest_s, time.perf_counter(), raised
            if error is None and self._origin.is_old:
                self.renew_origin()
            launched.events.put(Ended(launched.ticket, began_s, ended_s, error))
            last_s = ended_s


def _ran(completion: CudaCompletion, earliest_s: float, now_s: float) -> tuple[float, float]:
    """Return start and end of a completed job, clipped to [earliest_s, now_s] against clock drift."""
    took_s = completion.took_s
    ended_s = min(max(completion.began_s, earliest_s) + took_s, now_s)
    return max(ended_s - took_s, earliest_s), ended_s
