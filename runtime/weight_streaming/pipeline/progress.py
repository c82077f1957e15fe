"""How far each stage is, inference after inference; whoever needs more of another waits."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from threading import Condition
from typing import final


class Stage(IntEnum):
    """In the order in which a layer goes through them."""

    READ = 0
    COPY = 1
    KERNEL = 2


class StoppedError(Exception):
    """What was waited for will never be; somebody else has said why."""


@final
class Progress:
    """Counts streamed layers, by stage, and the inferences asked for; safe for threads."""

    def __init__(self) -> None:
        self._done = [0] * len(Stage)
        self._asked = 0
        self._changed = Condition()
        self._error: BaseException | None = None
        self._stopped = False

    @property
    def asked(self) -> int:
        """How many inferences were asked for."""
        return self._asked

    def ask(self) -> int:
        """One more inference; how many there were before it."""
        with self._changed:
            self._asked += 1
            self._changed.notify_all()
            return self._asked - 1

    def wait_asked(self, inferences: int) -> None:
        """Until so many were asked for.

        Raises:
          StoppedError: if that will never be.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or self._asked >= inferences)
            if self._asked < inferences:
                raise StoppedError

    def wait(self, needs: Iterable[tuple[Stage, int]], before: int = 0) -> None:
        """Until each stage is through with so many layers, and as many again as there were before.

        What is there is there: a stage that ended for what comes later stops nobody who needs less.

        Raises:
          StoppedError: if that will never be.
        """
        wanted = [(stage, before + count) for stage, count in needs]

        def are_met() -> bool:
            return all(self._done[stage] >= count for stage, count in wanted)

        with self._changed:
            self._changed.wait_for(lambda: self._stopped or are_met())
            if not are_met():
                raise StoppedError

    def advance(self, stage: Stage) -> None:
        """One more layer; what a stage left half done when it was stopped must not be told here."""
        with self._changed:
            self._done[stage] += 1
            self._changed.notify_all()

    def stop(self, error: BaseException | None = None) -> None:
        """Nobody goes any further; the first error is kept."""
        with self._changed:
            self._error = self._error or error
            self._stopped = True
            self._changed.notify_all()

    def is_stopped(self) -> bool:
        """Whether somebody ended it."""
        return self._stopped

    @property
    def error(self) -> BaseException | None:
        """What ended it."""
        return self._error
