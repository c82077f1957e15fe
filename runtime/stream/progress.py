"""How far each stage of a pass is; whoever needs more of another waits."""

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
    """The pass is over for this stage; another has said why."""


@final
class Progress:
    """Counts streamed layers, by stage; safe for threads."""

    def __init__(self) -> None:
        self._done = [0] * len(Stage)
        self._changed = Condition()
        self._error: BaseException | None = None
        self._stopped = False

    def wait(self, needs: Iterable[tuple[Stage, int]]) -> None:
        """Until each stage is through with so many layers.

        Raises:
          StoppedError: if that will never be.
        """
        wanted = [*needs]
        with self._changed:
            self._changed.wait_for(
                lambda: self._stopped or all(self._done[stage] >= count for stage, count in wanted)
            )
            if self._stopped:
                raise StoppedError

    def advance(self, stage: Stage) -> None:
        """One more layer."""
        with self._changed:
            self._done[stage] += 1
            self._changed.notify_all()

    def stop(self, error: BaseException | None = None) -> None:
        """Ends the pass for all; the first error is kept."""
        with self._changed:
            self._error = self._error or error
            self._stopped = True
            self._changed.notify_all()

    def is_stopped(self) -> bool:
        """Whether somebody ended the pass."""
        return self._stopped

    @property
    def error(self) -> BaseException | None:
        """What ended it."""
        return self._error
