"""Progress of the stages across inferences, with waiting between threads."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from threading import Condition
from typing import final


class StreamStage(IntEnum):
    """Stages of a layer, in order."""

    READ = 0
    COPY = 1
    KERNEL = 2


class StoppedError(Exception):
    """The pipeline was stopped while a thread waited; the cause is in `StreamProgress.error`."""


@final
class StreamProgress:
    """Counts finished streamed layers by stage, and requested inferences; thread-safe."""

    def __init__(self) -> None:
        self._done = [0] * len(StreamStage)
        self._requested = 0
        self._changed = Condition()
        self._error: BaseException | None = None
        self._stopped = False

    @property
    def requested(self) -> int:
        """Number of requested inferences."""
        return self._requested

    def request(self) -> int:
        """Request an inference and return the number of earlier ones."""
        with self._changed:
            self._requested += 1
            self._changed.notify_all()
            return self._requested - 1

    def wait_requested(self, inferences: int) -> None:
        """Block until the number of requested inferences is reached.

        Raises:
          StoppedError: if the pipeline was stopped before.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or self._requested >= inferences)
            if self._requested < inferences:
                raise StoppedError

    def wait(self, needs: Iterable[tuple[StreamStage, int]], before: int = 0) -> None:
        """Block until each stage has finished `before` plus its number of layers.

        A need that is already met never raises, even if the pipeline was stopped since.

        Raises:
          StoppedError: if the pipeline was stopped before the needs were met.
        """
        wanted = [(stage, before + count) for stage, count in needs]

        def are_met() -> bool:
            return all(self._done[stage] >= count for stage, count in wanted)

        with self._changed:
            self._changed.wait_for(lambda: self._stopped or are_met())
            if not are_met():
                raise StoppedError

    def advance(self, stage: StreamStage) -> None:
        """Count one more finished layer; not to be called for a layer that was interrupted."""
        with self._changed:
            self._done[stage] += 1
            self._changed.notify_all()

    def stop(self, error: BaseException | None = None) -> None:
        """Stop all stages; the first error is kept."""
        with self._changed:
            self._error = self._error or error
            self._stopped = True
            self._changed.notify_all()

    def is_stopped(self) -> bool:
        """Return whether the pipeline was stopped."""
        return self._stopped

    @property
    def error(self) -> BaseException | None:
        """The error that stopped the pipeline, or None."""
        return self._error
