"""One training in several processes of this machine, a GPU each; a process that is lost costs its epoch."""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from edgenas_core.types.errors import UserError
from nas.fit.training.replicas import join, leave

_ATTEMPTS = 5
"""Number of starts of the training, the first included."""

_SEEN_S = 5.0
"""Time after which a missing process is considered dead."""

Work = Callable[[int], None]
"""Function that each process calls with its number; it can be pickled."""


def in_processes(work: Work, count: int, say: Callable[[str], None]) -> None:
    """Run `work` in `count` processes that synchronise; restart all of them if one dies.

    Raises:
      UserError: if the work raises it, or a process dies in every attempt.
    """
    for _ in range(_ATTEMPTS):
        if _done(work, count):
            return
        say("a process of the training was lost; all go on after the last whole epoch")
    raise UserError(
        f"a process of the training was lost {_ATTEMPTS} times; is there enough memory for "
        f"processes={count}?"
    )


def _done(work: Work, count: int) -> bool:
    """Return True if all processes succeeded, False if one died."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="edgenas-") as folder:
        pool = ProcessPoolExecutor(count, context, _ignore_interrupts)
        processes = []
        try:
            meeting = Path(folder) / "meeting"
            futures: list[Future[None]] = [
                pool.submit(_member, work, rank, count, meeting) for rank in range(count)
            ]
            processes = list((pool._processes or {}).values())  # noqa: SLF001 - Python < 3.14 has no kill_workers
            for future in as_completed(futures):
                future.result()
        except RuntimeError as error:  # the pool's, or that another process hung up
            if isinstance(error, BrokenProcessPool) or _one_died(processes):
                return False
            raise
        finally:
            for process in processes:
                process.kill()
            pool.shutdown(wait=True, cancel_futures=True)
    return True


def _one_died(processes: Sequence[multiprocessing.process.BaseProcess]) -> bool:
    until_s = time.monotonic() + _SEEN_S
    while time.monotonic() < until_s:
        if not all(process.is_alive() for process in processes):
            return True
        time.sleep(0.05)
    return False


def _ignore_interrupts() -> None:
    # a Ctrl-C reaches the whole group of processes: the command ends them
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _member(work: Work, rank: int, count: int, meeting: Path) -> None:
    os.environ.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1")
    join(rank, count, meeting)
    try:
        work(rank)
    finally:
        leave()
