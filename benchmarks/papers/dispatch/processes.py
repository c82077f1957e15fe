"""Multi-context (M-C): one process per network, each with its own CUDA context.

Processes are spawned, not forked, and end with this one in any case: each holds the reading end of a
pipe whose writing end is here only. To start one takes seconds, most of them for torch and CUDA, so
that a pool of them serves one set of networks after another.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import signal
import time
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from threading import Event, Thread
from typing import Any, final

import torch
from torch import Tensor

from benchmarks.papers.dispatch.executor import Executor, Outcome, Ran, outcome
from benchmarks.papers.dispatch.feed import Feed
from benchmarks.papers.dispatch.prepared import Prepared, Setup, Source, Stream, open_stream
from runtime.lanes.cpu import one_core
from runtime.network.segment_kind import SegmentKind

_HEAD_START_S = 0.02
"""Seconds between the message and the common start."""
_PATIENCE_S = 5.0
"""Seconds for a process to end, or to release its network."""
_FREE = "free"
"""Message of a process that has released its network."""


@final
class ProcessDiedError(RuntimeError):
    """The process of a network ended without an answer: killed, out of memory, or crashed."""


@final
@dataclass(frozen=True)
class _Answer:
    ran: list[Ran]
    output: Tensor | BaseException


@final
class Processes:
    """A pool of processes for one set of networks after another."""

    def __init__(self) -> None:
        self._idle: list[_Worker] = []
        self._end = weakref.finalize(self, _end_all, self._idle)

    def take(self, count: int) -> list[_Worker]:
        """Take `count` processes from the pool; new ones are started if necessary."""
        alive = [worker for worker in self._idle if worker.process.is_alive()]
        _end_all([worker for worker in self._idle if worker not in alive])
        taken = alive[:count]
        self._idle[:] = alive[count:]
        while len(taken) < count:
            taken.append(_Worker(len(taken)))
        return taken

    def give_back(self, workers: Sequence[_Worker]) -> None:
        """Return processes to the pool; those that do not release their network are ended."""
        for worker in workers:
            worker.send(None)
        for worker in workers:
            if worker.has_let_go():
                self._idle.append(worker)
            else:
                _end_all([worker])

    def close(self) -> None:
        """Ask the processes to end, and kill those that do not."""
        self._end()


@final
class MultiContext(Executor):
    """One process per network; a process that dies ends only its own network."""

    def __init__(
        self, sources: Sequence[Source], setup: Setup, processes: Processes | None = None
    ) -> None:
        """Take or start all processes, and wait until every network is ready.

        Without a pool new processes are started.

        Raises:
          BaseException: any error of preparing a network in its process.
          ProcessDiedError: if a process ended.
          ValueError: if the setup has a slice of the GPU, which only one process can use.
        """
        if setup.sms is not None:
            raise ValueError("a slice of a GPU cannot be shared by processes; take another way")
        self._names = tuple(source.name for source in sources)
        self._processes = Processes() if processes is None else processes
        self._owns = processes is None
        self._workers = self._processes.take(len(sources))
        try:
            for k, (worker, source) in enumerate(zip(self._workers, sources, strict=True)):
                worker.load(source, setup, k)
            self._kinds = [worker.ready() for worker in self._workers]
        except BaseException:
            self.close()
            raise

    def run(self, inferences: int, *, each_job: bool = True, ahead: int = 0) -> Outcome:
        """Run that many inferences of every network, all starting together."""
        begin_s = time.perf_counter() + _HEAD_START_S
        for worker in self._workers:
            worker.send((inferences, each_job, ahead, begin_s))
        ran: list[list[Ran]] = []
        outputs: list[Tensor | BaseException] = []
        for worker in self._workers:
            try:
                answer = worker.receive()
            except ProcessDiedError as error:
                answer = _Answer([], error)
            ran.append(answer.ran)
            outputs.append(answer.output)
        kinds = self._kinds if each_job else [(SegmentKind.NETWORK,)] * len(outputs)
        lanes = range(len(outputs))
        return outcome(self._names, kinds, lanes, inferences, begin_s, ran, outputs)

    @property
    def process_ids(self) -> list[int | None]:
        """Process ids, for a profiler."""
        return [worker.process.pid for worker in self._workers]

    def close(self) -> None:
        """Return the processes to their pool, or end those that were started for this."""
        workers, self._workers = self._workers, []
        if self._owns:
            _end_all(workers)
        else:
            self._processes.give_back(workers)


@final
class _Worker:
    """The parent's side of a process."""

    def __init__(self, number: int) -> None:
        spawning = get_context("spawn")
        self._pipe, far = spawning.Pipe()
        theirs, self._lifeline = spawning.Pipe(duplex=False)
        self.process: BaseProcess = spawning.Process(
            target=_main, args=(far, theirs), name=f"context {number}", daemon=True
        )
        self.process.start()
        self._serves = "no network"
        far.close()
        theirs.close()

    def load(self, source: Source, setup: Setup, network: int) -> None:
        """Send it a network; `ready` waits until it is prepared."""
        self._serves = f"network {network} {source.name}"
        # Pickled here, since torch would pass tensors as handles of memory that this process owns.
        load = pickle.dumps((source, setup, network))
        with contextlib.suppress(OSError):  # it is dead, as `receive` will say
            self._pipe.send_bytes(load)

    def send(self, message: object) -> None:
        with contextlib.suppress(OSError):  # it is dead, as `receive` will say
            self._pipe.send(message)

    def ready(self) -> tuple[SegmentKind, ...]:
        """Wait until the network is ready; returns the kinds of its jobs."""
        answer = self.receive()
        if isinstance(answer, BaseException):
            raise answer
        kinds: tuple[SegmentKind, ...] = answer
        return kinds

    def receive(self) -> Any:
        try:
            return pickle.loads(self._pipe.recv_bytes())  # noqa: S301 - from a process of our own
        except (EOFError, OSError) as error:
            self.process.join(_PATIENCE_S)
            raise ProcessDiedError(
                f"the process of {self._serves} ended with status {self.process.exitcode}"
            ) from error

    def has_let_go(self) -> bool:
        """True if the process is alive and has released its network."""
        self._serves = "no network"
        try:
            while self._pipe.poll(_PATIENCE_S):
                if pickle.loads(self._pipe.recv_bytes()) == _FREE:  # noqa: S301 - from a process of our own
                    return True
        except (EOFError, OSError):
            pass
        return False

    def hang_up(self) -> None:
        self._pipe.close()

    def end(self) -> None:
        self.process.join(_PATIENCE_S)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self._lifeline.close()
        self.process.close()


def _end_all(workers: list[_Worker]) -> None:
    for worker in workers:
        worker.hang_up()
    for worker in workers:
        worker.end()
    workers.clear()


def _main(pipe: Connection, lifeline: Connection) -> None:
    """Main function of a process: serves network after network until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the parent decides
    Thread(target=_end_with_parent, args=(lifeline,), daemon=True).start()
    with contextlib.suppress(EOFError, OSError):
        while True:
            _serve(pipe, pipe.recv_bytes())
            gc.collect()
            if torch.cuda.is_initialized():
                torch.cuda.empty_cache()
            _send(pipe, _FREE)


def _serve(pipe: Connection, load: bytes) -> None:
    """Prepare one network, and run it for each message until None is received."""
    prepared: Prepared | None = None
    stream: Stream | None = None
    try:
        source: Source
        setup: Setup
        source, setup, network = pickle.loads(load)  # noqa: S301 - from the parent
        with one_core(setup.core(network)):
            stream = open_stream(setup, network, inline=True)
            prepared = Prepared(source, stream, captured=setup.captured)
    except BaseException as error:  # noqa: BLE001 - it is raised in the parent
        _send(pipe, error)
    else:
        _send(pipe, prepared.kinds)
    with torch.inference_mode():
        while (asked := pipe.recv()) is not None:
            if prepared is not None and stream is not None:
                _send(pipe, _run(prepared, stream, asked))
    if stream is not None:
        stream.close()


def _run(prepared: Prepared, stream: Stream, asked: tuple[int, bool, int, float]) -> _Answer:
    inferences, each_job, ahead, begin_s = asked
    feed = Feed(prepared, stream, inferences, Event(), each_job=each_job)
    stream.renew_origin()
    while time.perf_counter() < begin_s:
        pass
    while feed.has_more:
        feed.launch()
        if feed.is_between:
            feed.wait(left=ahead)
    ran = feed.ran()
    return _Answer(ran, feed.error or prepared.outputs[0])


def _send(pipe: Connection, answer: object) -> None:
    try:
        sent = pickle.dumps(answer)
    except Exception:  # noqa: BLE001 - an error with something in it that cannot travel
        sent = pickle.dumps(RuntimeError(repr(answer)))
    pipe.send_bytes(sent)


def _end_with_parent(lifeline: Connection) -> None:
    with contextlib.suppress(EOFError, OSError):
        lifeline.recv_bytes()
    os._exit(1)
