"""Multi-context (M-C): one process per network, each with its own CUDA context.

Processes are spawned, not forked, and end with this one in any case. To start one takes seconds, most
of them for torch and CUDA, so that a pool of them serves one set of networks after another.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from threading import Event, Thread
from typing import Any, final

import torch
from torch import Tensor

from benchmarks.dispatch.executor import DispatchOutcome, Executor, Ran, outcome
from benchmarks.dispatch.feed import Feed
from benchmarks.dispatch.prepared import (
    DispatchedNetwork,
    Prepared,
    Setup,
    Stream,
    open_stream,
)
from edgenas_runtime.lanes.cpu import one_core
from edgenas_runtime.network.segment_kind import SegmentKind

_HEAD_START_S = 0.05
"""Seconds between the message and the common start."""


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

    def take(self, count: int) -> list[_Worker]:
        """Take `count` processes from the pool; new ones are started if necessary."""
        taken, self._idle = self._idle[:count], self._idle[count:]
        return [*taken, *(_Worker() for _ in range(count - len(taken)))]

    def give_back(self, workers: Sequence[_Worker]) -> None:
        """Return processes to the pool; those that have died are not kept."""
        for worker, release in [(worker, worker.call(_release)) for worker in workers]:
            if isinstance(_answer(release, "none"), BaseException):
                worker.end()
            else:
                self._idle.append(worker)

    def close(self) -> None:
        """End the processes."""
        while self._idle:
            self._idle.pop().end()


@final
class MultiContext(Executor):
    """One process per network; a process that dies ends only its own network."""

    def __init__(
        self, sources: Sequence[DispatchedNetwork], setup: Setup, processes: Processes | None = None
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
        # Pickled here, since torch would pass tensors as handles of memory that this process owns.
        prepared = [
            worker.call(_prepare, pickle.dumps((source, setup, k)))
            for k, (worker, source) in enumerate(zip(self._workers, sources, strict=True))
        ]
        self._kinds: list[tuple[SegmentKind, ...]] = []
        for answer in map(_answer, prepared, self._names):
            if isinstance(answer, BaseException):
                self.close()
                raise answer
            self._kinds.append(answer)

    def run(self, inferences: int, *, each_job: bool = True) -> DispatchOutcome:
        """Run that many inferences of every network, all starting together."""
        begin_s = time.perf_counter() + _HEAD_START_S
        running = [worker.call(_run, inferences, each_job, begin_s) for worker in self._workers]
        answers = [
            _Answer([], answer) if isinstance(answer, BaseException) else pickle.loads(answer)  # noqa: S301 - from a process of our own
            for answer in map(_answer, running, self._names)
        ]
        kinds = self._kinds if each_job else [(SegmentKind.NETWORK,)] * len(answers)
        ran, outputs = [one.ran for one in answers], [one.output for one in answers]
        lanes = range(len(answers))
        return outcome(self._names, kinds, lanes, inferences, begin_s, ran, outputs)

    @property
    def process_ids(self) -> list[int]:
        """Process ids, for a profiler."""
        return [worker.process_id for worker in self._workers]

    def close(self) -> None:
        """Return the processes to their pool, or end those that were started for this."""
        workers, self._workers = self._workers, []
        self._processes.give_back(workers)
        if self._owns:
            self._processes.close()


@final
class _Worker:
    """One process, which keeps its network from call to call."""

    def __init__(self) -> None:
        spawn = get_context("spawn")
        self._pool = ProcessPoolExecutor(1, mp_context=spawn, initializer=_begin)
        self._pid = self._pool.submit(os.getpid)

    @property
    def process_id(self) -> int:
        return self._pid.result()

    def call(self, function: Callable[..., Any], *arguments: object) -> Future[Any]:
        try:
            return self._pool.submit(function, *arguments)
        except BrokenProcessPool as error:
            failed: Future[Any] = Future()
            failed.set_exception(error)
            return failed

    def end(self) -> None:
        self._pool.shutdown()


def _answer(future: Future[Any], name: str) -> Any:
    """The result of a call for a network, or its error."""
    try:
        return future.result()
    except BrokenProcessPool as error:
        return ProcessDiedError(f"the process of {name} ended: {error}")
    except Exception as error:  # noqa: BLE001 - it is raised or reported by the caller
        return error


_NETWORK: dict[str, Any] = {}
"""In a process of the pool: its prepared network and stream."""


def _begin() -> None:
    """Leave Ctrl-C to the parent, and end with it in any case."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


def _prepare(load: bytes) -> tuple[SegmentKind, ...]:
    source: DispatchedNetwork
    setup: Setup
    source, setup, network = pickle.loads(load)  # noqa: S301 - from the parent
    with one_core(setup.core(network)):
        stream = open_stream(setup, network, inline=True)
        _NETWORK["stream"] = stream
        prepared = Prepared(source, stream, captured=setup.captured)
    _NETWORK["prepared"] = prepared
    return prepared.kinds


def _run(inferences: int, each_job: bool, begin_s: float) -> bytes:
    prepared: Prepared = _NETWORK["prepared"]
    stream: Stream = _NETWORK["stream"]
    with torch.inference_mode():
        feed = Feed(prepared, stream, inferences, Event(), each_job=each_job)
        stream.renew_origin()
        while time.perf_counter() < begin_s:
            pass
        while feed.has_more:
            feed.launch()
            if feed.is_between:
                feed.wait()
        ran = feed.ran()
        answer = _Answer(ran, feed.error or prepared.outputs[0])
    try:
        return pickle.dumps(answer)
    except Exception:  # noqa: BLE001 - an error with something in it that cannot travel
        return pickle.dumps(_Answer(ran, RuntimeError(repr(answer.output))))


def _release() -> None:
    """Close the stream, and release the memory."""
    stream = _NETWORK.pop("stream", None)
    _NETWORK.clear()
    if stream is not None:
        with suppress(RuntimeError):  # a device that is lost
            stream.close()
    gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()
