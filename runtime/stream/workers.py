"""The threads of a pass: they begin with it and have ended when it is over, however it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Thread

from runtime.stream.progress import Progress, StoppedError


@contextmanager
def working(progress: Progress, jobs: Sequence[Callable[[], None]]) -> Iterator[None]:
    """Each job on a thread beside the body.

    An error of any of them stops all and is raised here. No thread is left behind, for each has
    memory to write to that somebody is about to give back: a second Ctrl-C waits too.

    Raises:
      BaseException: the first error of the body or a job.
    """
    threads = [Thread(target=_guarded, args=(progress, job), name="edgenas-stream") for job in jobs]
    try:
        for thread in threads:
            thread.start()
        yield
    except BaseException as error:
        progress.stop(None if isinstance(error, StoppedError) else error)
        raise
    finally:
        interrupted = _joined([thread for thread in threads if thread.ident is not None])
        cause = progress.error
        if cause is not None:
            raise cause
        if interrupted is not None:
            raise interrupted


def _guarded(progress: Progress, job: Callable[[], None]) -> None:
    try:
        job()
    except StoppedError:
        pass
    except BaseException as error:  # noqa: BLE001 - raised where the pass was begun
        progress.stop(error)


def _joined(threads: Sequence[Thread]) -> KeyboardInterrupt | None:
    interrupted = None
    for thread in threads:
        while thread.is_alive():
            interrupted = _interrupted(thread.join) or interrupted
    return interrupted


def _interrupted(wait: Callable[[], None]) -> KeyboardInterrupt | None:
    try:
        wait()
    except KeyboardInterrupt as error:
        return error
    return None
