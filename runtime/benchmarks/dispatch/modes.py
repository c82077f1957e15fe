"""Dispatch modes: how the jobs of many networks are launched on one device.

| mode | in the literature | launched by | streams |
|---|---|---|---|
| SERIAL | | one thread, network after network | one |
| SINGLE_CONTEXT | S-C | one thread per network | one per network |
| QUEUE_STREAM | Q-S | one thread, from a queue filled by one thread per network | one per network |
| SINGLE_ISSUER | | one thread, in turns, without a queue | one per network |
| FORK_JOIN | | one thread, one launch for one inference of all networks | one per network |
| MULTI_CONTEXT | M-C | one process per network, `processes.py` | one per network |

M-C, S-C and Q-S are described by Lim & Kim, IEIE 58(10), 2021. On the CPU a stream is a thread,
unless the launching thread can do its work; it is pinned to a core if cores are given.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from copy import copy
from enum import Enum
from functools import partial
from queue import SimpleQueue
from threading import Event, Lock, Semaphore, Thread
from typing import final

from torch import Tensor

from benchmarks.dispatch.executor import DispatchOutcome, Executor, Ran, outcome
from benchmarks.dispatch.feed import Feed
from benchmarks.dispatch.prepared import (
    DispatchedNetwork,
    Prepared,
    Ready,
    Setup,
    Stream,
    open_stream,
)
from edgenas_core.inference.backend import Device
from edgenas_runtime.lanes.cpu import one_core
from edgenas_runtime.network.segment_kind import SegmentKind


class DispatchMode(Enum):
    """Dispatch modes, by the names in results."""

    SERIAL = "serial"
    SINGLE_CONTEXT = "single_context"
    QUEUE_STREAM = "queue_stream"
    SINGLE_ISSUER = "single_issuer"
    FORK_JOIN = "fork_join"
    MULTI_CONTEXT = "multi_context"


def open_executor(
    mode: DispatchMode, sources: Sequence[DispatchedNetwork], setup: Setup
) -> Executor:
    """Prepare networks for a dispatch mode.

    Raises:
      BaseException: any error of `decompose` or `Compiled`.
      ValueError: if the process may not use a core.
      RuntimeError: if there is no such device; for MULTI_CONTEXT also if a process dies.
    """
    if mode is DispatchMode.MULTI_CONTEXT:
        from benchmarks.dispatch.processes import MultiContext  # noqa: PLC0415 - of one mode

        return MultiContext(sources, setup)
    return InProcess(mode, sources, setup)


@final
class InProcess(Executor):
    """The dispatch modes that use threads and streams of this process."""

    def __init__(
        self, mode: DispatchMode, sources: Sequence[DispatchedNetwork], setup: Setup
    ) -> None:
        """Prepare all networks, one after another."""
        self._mode = mode
        self._setup = setup
        self._names = tuple(source.name for source in sources)
        streams = 1 if mode is DispatchMode.SERIAL else len(sources)
        self._lane_of = [k % streams for k in range(len(sources))]
        with ExitStack() as opened:
            self._streams: list[Stream] = []
            for k in range(streams):
                inline = mode in {DispatchMode.SERIAL, DispatchMode.SINGLE_CONTEXT}
                self._streams.append(open_stream(setup, k, inline=inline))
                opened.callback(self._streams[k].close)
            self._networks: list[Ready] = []
            if mode is DispatchMode.FORK_JOIN and setup.device is Device.cuda and setup.captured:
                from benchmarks.dispatch.cuda_fork import Branches  # noqa: PLC0415 - for those who have a GPU

                self._networks.append(Branches(sources, self._streams))
            else:
                self._networks += [
                    Prepared(source, self._streams[lane], captured=setup.captured)
                    for source, lane in zip(sources, self._lane_of, strict=True)
                ]
            self._opened = opened.pop_all()

    def run(self, inferences: int, *, each_job: bool = True) -> DispatchOutcome:
        """Run that many inferences of every network."""
        stop, ready = Event(), Semaphore(0)
        feeds = [
            Feed(network, self._streams[lane], inferences, stop, each_job=each_job)
            for network, lane in zip(self._networks, self._lane_of, strict=False)
        ]
        threads: list[Thread] = []
        gates: list[Lock] = []
        overs: list[Event] = []
        for core, body in self._bodies(feeds):
            gates.append(Lock())
            gates[-1].acquire()
            overs.append(Event())
            args = (core, ready, gates[-1], body, overs[-1])
            threads.append(Thread(target=_on_core, args=args, daemon=True))
        for stream in self._streams:
            stream.renew_origin()
        begin_s = time.perf_counter()
        try:
            for thread in threads:
                thread.start()
            for _ in threads:
                ready.acquire()
            begin_s = time.perf_counter()
            _open(gates)
            for over in overs:  # after Ctrl-C, `join` would treat its thread as ended
                over.wait()
        finally:
            stop.set()  # nothing but an exception, Ctrl-C for one, leaves a thread running here
            _open(gates)
            for thread, over in zip(threads, overs, strict=True):
                if thread.ident is not None:
                    over.wait()
            ran = [feed.ran() for feed in feeds]
        return self._outcome(feeds, inferences, begin_s, ran, each_job=each_job)

    def with_mode(self, mode: DispatchMode) -> InProcess:
        """The same networks and streams in another dispatch mode; closed together with this one.

        Only for modes with one stream per network on a GPU. The graph of FORK_JOIN is not divided,
        and inline streams stay inline.
        """
        other = copy(self)
        other._mode = mode  # noqa: SLF001 - of this class
        return other

    def close(self) -> None:
        """Close the streams, and release the networks."""
        self._networks.clear()
        self._opened.close()

    def _outcome(
        self,
        feeds: Sequence[Feed],
        inferences: int,
        begin_s: float,
        ran: list[list[Ran]],
        *,
        each_job: bool,
    ) -> DispatchOutcome:
        outputs: list[Tensor | BaseException] = []
        kinds: list[tuple[SegmentKind, ...]] = []
        for network, feed in zip(self._networks, feeds, strict=True):
            outputs += network.outputs if feed.error is None else [feed.error] * network.count
            kinds += [network.kinds if each_job else (SegmentKind.NETWORK,)] * network.count
        if len(ran) < len(outputs):
            ran *= len(outputs)  # one graph of all networks
        return outcome(self._names, kinds, self._lane_of, inferences, begin_s, ran, outputs)

    def _bodies(self, feeds: Sequence[Feed]) -> Iterator[tuple[int | None, Callable[[], None]]]:
        """Core and function of each thread."""
        if self._mode is DispatchMode.SERIAL:
            yield self._setup.core(0), partial(_serially, feeds)
        elif self._mode is DispatchMode.SINGLE_CONTEXT:
            for k, feed in enumerate(feeds):
                yield self._setup.core(k), partial(_serially, [feed])
        elif self._mode is DispatchMode.SINGLE_ISSUER:
            yield None, partial(_in_turns, feeds)
        elif self._mode is DispatchMode.FORK_JOIN:
            yield None, partial(_in_rounds, feeds)
        else:
            queue: _Queue = SimpleQueue()
            for feed in feeds:
                yield None, partial(_fill, feed, queue)
            yield None, partial(_issue, queue, len(feeds))


def _on_core(
    core: int | None, ready: Semaphore, gate: Lock, body: Callable[[], None], over: Event
) -> None:
    """The body of a thread; all threads start together, like the processes of M-C."""
    with ExitStack() as pinned:
        pinned.callback(over.set)
        try:
            pinned.enter_context(one_core(core))
        finally:
            ready.release()
        gate.acquire()  # one lock per thread: with one event for all, threads would delay each other
        body()


def _open(gates: Sequence[Lock]) -> None:
    for gate in gates:
        with suppress(RuntimeError):  # already open
            gate.release()


def _serially(feeds: Sequence[Feed]) -> None:
    while any(feed.has_more for feed in feeds):
        for feed in feeds:
            _launch_inference(feed)
            feed.wait()


def _in_turns(feeds: Sequence[Feed]) -> None:
    while ready := [feed for feed in feeds if feed.has_more]:
        for feed in ready:
            feed.launch()


def _in_rounds(feeds: Sequence[Feed]) -> None:
    while any(feed.has_more for feed in feeds):
        for feed in feeds:
            _launch_inference(feed)
        if len(feeds) > 1:  # a graph of all networks is ordered by its own stream
            for feed in feeds:
                feed.wait()


def _launch_inference(feed: Feed) -> None:
    while feed.has_more:
        feed.launch()
        if feed.is_between:
            return


_Queue = SimpleQueue["tuple[Feed, Lock] | None"]


def _fill(feed: Feed, queue: _Queue) -> None:
    """The thread of a network: queue an inference, and wait for its end."""
    launched = Lock()
    launched.acquire()
    while feed.has_more:
        queue.put((feed, launched))
        launched.acquire()
        feed.wait()
    queue.put(None)


def _issue(queue: _Queue, networks: int) -> None:
    """The dispatching thread.

    A network is in the queue once; after each job it goes to the end of the queue, where its own
    thread would put it. To wake that thread for each job would cost five times as much as a launch,
    because both need Python's lock.
    """
    while networks > 0:
        item = queue.get()
        if item is None:
            networks -= 1
            continue
        feed, launched = item
        feed.launch()
        if feed.is_between or not feed.has_more:
            launched.release()
        else:
            queue.put(item)
