"""Worker threads of a pipeline, which live across inferences and block while they wait."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Thread, current_thread
from typing import final

from edgenas_runtime.weight_streaming.pipeline.progress import (
    StoppedError,
    StreamProgress,
    StreamStage,
)


@final
class StageWorkers:
    """One thread per job, started by the first inference.

    All threads have ended after an error or `end`, because they write to memory that is then released:
    a second Ctrl-C is delayed until then. They are also ended at process exit.
    """

    def __init__(self, jobs: Sequence[Callable[[StreamProgress], None]], layers: int) -> None:
        """Each job runs until its progress is stopped."""
        self._jobs = jobs
        self._layers = layers
        self._progress = StreamProgress()
        self._threads: list[Thread] = []

    @contextmanager
    def inference(self) -> Iterator[tuple[StreamProgress, int]]:
        """Run one inference in the body; yield the progress and the layers counted before it.

        An error of the body or of a job ends all threads and is raised here. An error that concerns only
        the next inference is raised by that one.

        Raises:
          BaseException: the first error.
        """
        try:
            self._begin()
            progress = self._progress
            yield progress, progress.request() * self._layers
        except BaseException as error:  # noqa: BLE001 - also Ctrl-C; it or its cause is raised
            self._progress.stop(None if isinstance(error, StoppedError) else error)
            cause = self._progress.error
            interrupted = self._join()
            raise cause or interrupted or error from None

    def wait_for(self, needs: Iterable[tuple[StreamStage, int]]) -> None:
        """Block until the stages are this many layers beyond the latest inference, or were stopped."""
        if self._threads:
            with suppress(StoppedError):
                self._progress.wait(needs, self._progress.requested * self._layers)

    def end(self) -> None:
        """End the threads and discard what they prefetched, including errors.

        Raises:
          KeyboardInterrupt: if one occurred while waiting; the threads have ended.
        """
        interrupted = self._join()
        if interrupted is not None:
            raise interrupted

    def _begin(self) -> None:
        if self._progress.error is not None:
            raise StoppedError
        if len(self._threads) == len(self._jobs) and all(
            thread.is_alive() for thread in self._threads
        ):
            return
        # first inference, or a forked child, which has no threads
        self._progress = progress = StreamProgress()
        self._threads = [
            Thread(target=_guarded, args=(progress, job), name="edgenas-stream", daemon=True)
            for job in self._jobs
        ]
        atexit.register(self.end)  # before their memory is freed
        for thread in self._threads:
            thread.start()

    def _join(self) -> KeyboardInterrupt | None:
        self._progress.stop()
        interrupted = None
        for thread in self._threads:
            # a worker that collects garbage may finalize the owner of this object
            while thread.is_alive() and thread is not current_thread():
                interrupted = _interrupted_by(thread.join) or interrupted
        atexit.unregister(self.end)
        self._threads = []
        self._progress = StreamProgress()
        return interrupted


def _interrupted_by(wait: Callable[[], None]) -> KeyboardInterrupt | None:
    try:
        wait()
    except KeyboardInterrupt as error:
        return error
    return None


def _guarded(progress: StreamProgress, job: Callable[[StreamProgress], None]) -> None:
    try:
        job(progress)
    except StoppedError:
        pass
    except BaseException as error:  # noqa: BLE001 - raised by `inference`
        progress.stop(error)
