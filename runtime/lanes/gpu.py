"""A stream of a GPU as a lane: jobs are launched when they are put, and end when an event says so."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Thread
from typing import final

import torch

from runtime.lanes.cpu import Began, Ended, Events, RealLane
from runtime.network.completion import Completion, Compute
from runtime.network.cuda.graph import GraphEngine
from runtime.network.cuda.sm_slices import SmSlice
from runtime.network.cuda.stream_pool import stream_pool
from runtime.network.engine import EagerEngine, Engine
from runtime.scheduling.chain import Lane
from runtime.scheduling.dispatcher import Ticket
from runtime.shell.closeable import Closes

_ORIGIN_LASTS_S = 60.0
"""After a minute 24 bits, in which CUDA tells the time between two events, are 4 us apart."""

_DRIFT = 5e-6
"""Allowed for between the GPU's clock and the computer's; no measured bound."""

_Events = tuple[torch.cuda.Event, torch.cuda.Event]


@final
class CudaCompletion(Completion):
    """Of a job on a stream: two events around it, which others may use when it is forgotten.

    What it took is exact to the events' half microsecond. When it began and ended is known as well
    as the lane's origin, to `uncertainty_s`: some microseconds at first, 0.3 ms after a minute. Two
    lanes have two origins, so of two jobs closer than both uncertainties nobody knows which ended
    first.
    """

    def __init__(self, origin: CudaOrigin, spare: list[_Events], *, spin: bool) -> None:
        """Of a job about to be launched.

        Args:
          origin: of the clock.
          spare: events of the same lane, for to make them costs more than to record them, and
            much more where threads make them at once.
          spin: whether who waits for it spins, or sleeps.
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
        """Waits for the event, not for the device; Python's lock is free meanwhile."""
        self.end.synchronize()

    @property
    def has_succeeded(self) -> bool:
        """Whether the GPU is past it."""
        return bool(self.end.query())

    @property
    def error(self) -> None:
        """Nothing: what went wrong on the GPU is heard of by waiting, for this job or a later."""

    @property
    def began_s(self) -> float:
        """When the GPU came to it, by the GPU's clock."""
        return self._origin.at_s(self.begin)

    @property
    def ended_s(self) -> float:
        """When its last kernel ended, by the GPU's clock."""
        return self._origin.at_s(self.end)

    @property
    def uncertainty_s(self) -> float:
        """By which `began_s` and `ended_s` may be wrong, both alike."""
        return self._origin.uncertainty_s

    @property
    def took_s(self) -> float:
        """Between the events."""
        return float(self.begin.elapsed_time(self.end)) / 1e3


@final
class CudaOrigin:
    """A moment on both clocks, which drift apart."""

    def __init__(self, stream: torch.cuda.Stream) -> None:
        """Now: waits for the stream, and for some events more, of which the quickest counts."""
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
        self._half_way_s = quickest_s / 2

    @property
    def uncertainty_s(self) -> float:
        """By which a time told now may be wrong: half the quickest event, and the drift since."""
        return self._half_way_s + (_DRIFT + 2**-24) * (time.perf_counter() - self._at_s)

    @property
    def is_old(self) -> bool:
        """Whether a new one would be more exact."""
        return time.perf_counter() - self._at_s > _ORIGIN_LASTS_S

    def at_s(self, event: torch.cuda.Event) -> float:
        """When an event happened, on the clock of `time.perf_counter`; nan if it has not yet."""
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
class GpuLane(RealLane, Closes):
    """A stream, if asked for with a priority and on some of the GPU's multiprocessors only.

    To be used in a `with` statement. Whoever puts a job launches it; a thread of the lane waits for
    the ends. What has been launched cannot be taken back.
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
        """Makes the stream.

        Args:
          device: which GPU.
          name: None for the device's, with the number of multiprocessors.
          priority: lower comes first; `torch.cuda.Stream.priority_range()` gives both ends.
          sms: the lane's own multiprocessors, which it does not close; None for all.
          captured: whether jobs are CUDA graphs; else they are eager torch.
          spin: whether who waits for a job keeps a core busy, to hear of its end some microseconds
            earlier.

        Raises:
          RuntimeError: if there is no such GPU.
        """
        self._streams = stream_pool(device) if sms is None else sms.streams
        self._stream = self._streams.take(priority)
        default = f"gpu{device}" if sms is None else f"gpu{device}/sm{sms.count}"
        self._lane = Lane(default if name is None else name, asynchronous=True)
        self._engine: Engine = (
            GraphEngine(self._stream) if captured else EagerEngine(self._stream.device)
        )
        self._launched: SimpleQueue[_Launched | None] = SimpleQueue()
        self._spare: list[_Events] = []
        self._closed = False
        self._spin = spin
        self._origin = CudaOrigin(self._stream)
        self._thread = Thread(target=self._reap, name=self._lane.name, daemon=True)
        self._thread.start()

    @property
    def lane(self) -> Lane:
        """What a scheduler knows of it."""
        return self._lane

    @property
    def engine(self) -> Engine:
        """What makes jobs for it."""
        return self._engine

    @property
    def stream(self) -> torch.cuda.Stream:
        """On which it works."""
        return self._stream

    def put(
        self,
        ticket: Ticket,
        compute: Compute,
        events: Events,
        after: Completion | None = None,
    ) -> Completion:
        """Launches a job, in the calling thread."""
        self._check_open()
        before = torch.cuda.current_stream()
        began_s = time.perf_counter()
        try:
            with torch.inference_mode():
                completion = self._launch(compute, after)
        except Exception as error:  # noqa: BLE001 - whatever a job raises ends its request only
            events.put(Ended(ticket, began_s, time.perf_counter(), error))
            return _Failed(error)
        finally:
            torch.cuda.set_stream(before)
        events.put(Began(ticket, began_s))
        self._launched.put(_Launched(ticket, completion, began_s, events))
        return completion

    def launch(self, compute: Compute, after: Completion | None = None) -> Completion:
        """Launches a job of which nobody needs to hear; leaves the lane's stream current.

        It does not turn gradients off.

        Raises:
          RuntimeError: if the lane is closed.
          BaseException: whatever the job raises before the GPU has it.
        """
        return self._launch(compute, after)

    def _launch(self, compute: Compute, after: Completion | None) -> CudaCompletion:
        self._check_open()
        torch.cuda.set_stream(self._stream)
        if isinstance(after, CudaCompletion):
            self._stream.wait_event(after.end)
        elif after is not None:
            after.wait()
        completion = CudaCompletion(self._origin, self._spare, spin=self._spin)
        completion.begin.record(self._stream)
        compute()
        completion.end.record(self._stream)
        return completion

    def issue(self, compute: Compute) -> None:
        """As `launch`, but nobody will ever know when the job ended."""
        torch.cuda.set_stream(self._stream)
        compute()

    def renew_origin(self) -> None:
        """Sets the GPU's clock by the computer's anew; waits for the stream."""
        self._origin = CudaOrigin(self._stream)

    def withdraw(self) -> tuple[Ticket, ...]:
        """Nothing: what was put was launched."""
        return ()

    def close(self, wait_s: float = 10.0) -> bool:
        """Launches no further job, and waits for those that were put."""
        self._closed = True
        self._launched.put(None)
        self._thread.join(wait_s)
        has_ended = not self._thread.is_alive()
        if has_ended:
            self._streams.give_back(self._stream)
        return has_ended

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError(f"lane {self._lane.name} is closed")

    def _reap(self) -> None:
        torch.cuda.set_device(self._stream.device)
        last_s = -math.inf
        while (one := self._launched.get()) is not None:
            error: BaseException | None = None
            earliest_s = max(one.launched_s, last_s)
            try:
                one.completion.wait()
                began_s, ended_s = _ran(one.completion, earliest_s, time.perf_counter())
            except RuntimeError as raised:  # the GPU itself says no, to all that follows too
                began_s, ended_s, error = earliest_s, time.perf_counter(), raised
            if error is None and self._origin.is_old:
                self.renew_origin()
            one.events.put(Ended(one.ticket, began_s, ended_s, error))
            last_s = ended_s


def _ran(completion: CudaCompletion, earliest_s: float, now_s: float) -> tuple[float, float]:
    """When a job that is over began and ended; the clocks drift, what is certain stays so."""
    took_s = completion.took_s
    ended_s = min(max(completion.began_s, earliest_s) + took_s, now_s)
    return max(ended_s - took_s, earliest_s), ended_s


@final
@dataclass(frozen=True)
class _Failed(Completion):
    """Of a job that was not launched."""

    raised: BaseException

    def wait(self) -> None:
        """Raises at once."""
        raise self.raised

    @property
    def error(self) -> BaseException:
        """What kept it from being launched."""
        return self.raised

    @property
    def has_succeeded(self) -> bool:
        """Never."""
        return False

    @property
    def began_s(self) -> float:
        """Never."""
        return math.nan

    @property
    def ended_s(self) -> float:
        """Never."""
        return math.nan
