"""A process a network, each with a context of its own: M-C.

Processes are started afresh, not forked, and end with this one, however it ends: each holds the
reading end of a pipe whose writing end is here only.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from threading import Event, Thread
from types import TracebackType
from typing import Any, final

from torch import Tensor

from runtime.feed import Feed
from runtime.issuing import Executor
from runtime.kinds import Kind
from runtime.lanes import one_core
from runtime.outcome import Outcome, Ran, outcome
from runtime.prepared import Prepared, Setup, Source, open_stream

_HEAD_START_S = 0.02
"""Between the message and the moment at which all begin."""
_PATIENCE_S = 5.0
"""For a process to end by itself."""


@final
class ProcessDiedError(RuntimeError):
    """A network's process ended without an answer: killed, out of memory, or by a fault in it."""


@final
@dataclass(frozen=True)
class _Answer:
    ran: list[Ran]
    output: Tensor | BaseException


@final
class MultiContext(Executor):
    """A process a network. One that dies ends its network only."""

    def __init__(self, sources: Sequence[Source], setup: Setup) -> None:
        """Starts all processes at once, and waits until every network is ready.

        Raises:
          BaseException: what making a network ready raised in its process.
          ProcessDiedError: if one ended instead.
        """
        self._names = tuple(source.name for source in sources)
        self._workers: list[_Worker] = []
        try:
            for k, source in enumerate(sources):
                self._workers.append(_Worker(source, setup, k))
            self._kinds = [worker.ready() for worker in self._workers]
        except BaseException:
            self.close()
            raise

    def run(self, inferences: int, *, each_job: bool = True) -> Outcome:
        """Lets every network do so many inferences, all beginning at one moment."""
        begin_s = time.perf_counter() + _HEAD_START_S
        for worker in self._workers:
            worker.send((inferences, each_job, begin_s))
        ran: list[list[Ran]] = []
        outputs: list[Tensor | BaseException] = []
        for worker in self._workers:
            try:
                answer = worker.receive()
            except ProcessDiedError as error:
                answer = _Answer([], error)
            ran.append(answer.ran)
            outputs.append(answer.output)
        kinds = self._kinds if each_job else [(Kind.NETWORK,)] * len(outputs)
        lanes = range(len(outputs))
        return outcome(self._names, kinds, lanes, inferences, begin_s, ran, outputs)

    @property
    def process_ids(self) -> list[int | None]:
        """Of the networks, for a profiler."""
        return [worker.process.pid for worker in self._workers]

    def close(self) -> None:
        """Asks the processes to end, and kills those that do not."""
        for worker in self._workers:
            worker.hang_up()
        for worker in self._workers:
            worker.end()
        self._workers.clear()

    def __enter__(self) -> MultiContext:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


@final
class _Worker:
    """This side of a process."""

    def __init__(self, source: Source, setup: Setup, network: int) -> None:
        spawning = get_context("spawn")
        self._pipe, far = spawning.Pipe()
        theirs, self._lifeline = spawning.Pipe(duplex=False)
        # Pickled here, since torch would pass tensors as handles of memory that this process owns.
        load = pickle.dumps(source)
        self.process: BaseProcess = spawning.Process(
            target=_main,
            args=(load, setup, network, far, theirs),
            name=f"network {network} {source.name}",
            daemon=True,
        )
        self.process.start()
        far.close()
        theirs.close()

    def send(self, message: object) -> None:
        with contextlib.suppress(OSError):  # it is dead, as `receive` will say
            self._pipe.send(message)

    def ready(self) -> tuple[Kind, ...]:
        """The kinds of its jobs."""
        answer = self.receive()
        if isinstance(answer, BaseException):
            raise answer
        kinds: tuple[Kind, ...] = answer
        return kinds

    def receive(self) -> Any:
        try:
            return pickle.loads(self._pipe.recv_bytes())  # noqa: S301 - from a process of our own
        except (EOFError, OSError) as error:
            self.process.join(_PATIENCE_S)
            raise ProcessDiedError(
                f"the process of {self.process.name} ended with status {self.process.exitcode}"
            ) from error

    def hang_up(self) -> None:
        self._pipe.close()

    def end(self) -> None:
        self.process.join(_PATIENCE_S)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self._lifeline.close()
        self.process.close()


def _main(load: bytes, setup: Setup, network: int, pipe: Connection, lifeline: Connection) -> None:
    """The life of a process: ready, then run after run, until the pipe is hung up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the parent decides
    Thread(target=_end_with_parent, args=(lifeline,), daemon=True).start()
    with contextlib.suppress(EOFError, OSError), one_core(setup.core(network)):
        try:
            stream = open_stream(setup, network, inline=True)
            source: Source = pickle.loads(load)  # noqa: S301 - from the parent
            prepared = Prepared(source, stream, captured=setup.captured)
        except BaseException as error:  # noqa: BLE001 - it is raised in the parent
            _send(pipe, error)
            return
        _send(pipe, prepared.kinds)
        while True:
            inferences, each_job, begin_s = pipe.recv()
            feed = Feed(prepared, stream, inferences, Event(), each_job=each_job)
            stream.renew_origin()
            while time.perf_counter() < begin_s:
                pass
            while feed.has_more:
                feed.launch()
                if feed.is_between:
                    feed.wait()
            ran = feed.ran()
            _send(pipe, _Answer(ran, feed.error or prepared.outputs[0]))


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
