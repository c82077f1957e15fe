"""Launches the jobs of one network on its stream, and records their times."""

from __future__ import annotations

from concurrent.futures import CancelledError
from dataclasses import dataclass
from threading import Event
from typing import final

from benchmarks.dispatch.executor import Ran
from benchmarks.dispatch.prepared import Ready, Stream
from edgenas_runtime.network.completion import Completion, Compute


@final
@dataclass(frozen=True)
class _Timed:
    inference: int
    index: int
    first: Completion
    last: Completion


@final
class Feed:
    """The jobs of one network, for one thread at a time; an error of the network is kept and ends it."""

    def __init__(
        self, network: Ready, stream: Stream, inferences: int, stop: Event, *, each_job: bool
    ) -> None:
        """Time each job, or each inference; `stop` ends the network with CancelledError."""
        self._network = network
        self._stream = stream
        self._inferences = inferences
        self._stop = stop
        self._each_job = each_job
        self._inference = -1
        self._jobs: list[Compute] = []
        self._next = 0
        self._first: Completion | None = None
        self._timed: list[_Timed] = []
        self._underway: list[Completion] = []
        """Jobs that may not have ended."""
        self.error: BaseException | None = None

    @property
    def is_between(self) -> bool:
        """True if every inference that has begun is launched completely."""
        return self._next == len(self._jobs)

    @property
    def has_more(self) -> bool:
        """True if there is another job to launch."""
        return self.error is None and not (
            self.is_between and self._inference == self._inferences - 1
        )

    def launch(self) -> None:
        """Launch the next job."""
        try:
            if self._stop.is_set():
                raise CancelledError  # noqa: TRY301 - one handler for all that ends a network
            if self.is_between:
                self._jobs, self._next = [*self._network.inference()], 0
                self._inference += 1
            self._launch_timed() if self._is_timed() else self._issue()
            self._next += 1
        except KeyboardInterrupt:  # the caller's, not the network's
            raise
        except BaseException as error:  # noqa: BLE001 - other networks have nothing to do with it
            self.error = error

    def wait(self) -> None:
        """Wait until all launched jobs have ended: for the last, since a stream keeps the order."""
        launched, self._underway = self._underway, []
        if launched:
            self._wait_for(launched[-1])
            errors = (one.error for one in launched if one.error is not None)
            self.error = next(errors, self.error)

    def ran(self) -> list[Ran]:
        """Wait for all jobs, and return the times of those that succeeded."""
        self.wait()
        times = (
            Ran(one.inference, one.index, one.first.began_s, one.last.ended_s)
            for one in self._timed
            if one.first.error is None and one.last.error is None
        )
        return [*times]

    def _wait_for(self, completion: Completion) -> None:
        try:
            completion.wait()
        except KeyboardInterrupt:  # likewise
            raise
        except BaseException as error:  # noqa: BLE001 - likewise
            self.error = self.error or error

    def _is_timed(self) -> bool:
        return self._each_job or self._next in {0, len(self._jobs) - 1}

    def _launch_timed(self) -> None:
        completion = self._stream.launch(self._jobs[self._next])
        self._underway.append(completion)
        if self._each_job or self._next == 0:
            self._first = completion
        if self._each_job or self._next == len(self._jobs) - 1:
            assert self._first is not None
            index = self._next if self._each_job else 0
            self._timed.append(_Timed(self._inference, index, self._first, completion))

    def _issue(self) -> None:
        completion = self._stream.issue(self._jobs[self._next])
        if completion is not None:
            self._underway.append(completion)
