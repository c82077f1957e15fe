"""The threads of a pipeline: they go from inference to inference, asleep where they wait, until ended."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Thread, current_thread
from typing import final

from runtime.weight_streaming.pipeline.progress import Progress, Stage, StoppedError


@final
class Workers:
    """Each job on a thread of its own, from the first inference on.

    No thread is left after an error or `end`, for each has memory to write to that somebody is about
    to give back: a second Ctrl-C waits too. At the end of the process they are ended, too.
    """

    def __init__(self, jobs: Sequence[Callable[[Progress], None]], layers: int) -> None:
        """Begins nothing yet.

        Args:
          jobs: each goes on until the progress that it is given stops it.
          layers: that go through the stages in each inference.
        """
        self._jobs = jobs
        self._layers = layers
        self._progress = Progress()
        self._threads: list[Thread] = []

    @contextmanager
    def inference(self) -> Iterator[tuple[Progress, int]]:
        """The body is one inference; how far all are, and how many layers went through before.

        An error of the body or of a job ends all threads and is raised here. One that a job came
        upon for the next inference, while this one had all it needed, is raised by that one.

        Raises:
          BaseException: the first error.
        """
        try:
            self._begin()
            progress = self._progress
            yield progress, progress.ask() * self._layers
        except BaseException as error:  # noqa: BLE001 - Ctrl-C too; it or its cause is raised
            self._progress.stop(None if isinstance(error, StoppedError) else error)
            cause = self._progress.error
            interrupted = self._joined()
            raise cause or interrupted or error from None

    def rest(self, needs: Iterable[tuple[Stage, int]]) -> None:
        """Until the stages are so many layers beyond the latest inference, or will never be."""
        if self._threads:
            with suppress(StoppedError):
                self._progress.wait(needs, self._progress.asked * self._layers)

    def end(self) -> None:
        """Ends the threads; what they did for the next inference is forgotten, errors too.

        Raises:
          KeyboardInterrupt: if there was one; they have ended.
        """
        interrupted = self._joined()
        if interrupted is not None:
            raise interrupted

    def _begin(self) -> None:
        if self._progress.error is not None:
            raise StoppedError
        if len(self._threads) == len(self._jobs) and all(one.is_alive() for one in self._threads):
            return
        # the first time, or in the child of a fork, which has no threads
        self._progress = progress = Progress()
        self._threads = [
            Thread(target=_guarded, args=(progress, job), name="edgenas-stream", daemon=True)
            for job in self._jobs
        ]
        atexit.register(self.end)  # before the memory they write to is gone
        for thread in self._threads:
            thread.start()

    def _joined(self) -> KeyboardInterrupt | None:
        self._progress.stop()
        interrupted = None
        for thread in self._threads:
            # the garbage that a job's thread collects may be the owner of this
            while thread.is_alive() and thread is not current_thread():
                interrupted = _interrupted(thread.join) or interrupted
        atexit.unregister(self.end)
        self._threads = []
        self._progress = Progress()
        return interrupted


def _interrupted(wait: Callable[[], None]) -> KeyboardInterrupt | None:
    try:
        wait()
    except KeyboardInterrupt as error:
        return error
    return None


def _guarded(progress: Progress, job: Callable[[Progress], None]) -> None:
    try:
        job(progress)
    except StoppedError:
        pass
    except BaseException as error:  # noqa: BLE001 - raised where inferences are asked for
        progress.stop(error)
