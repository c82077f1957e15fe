"""Search the settings of a study in several processes; a failed one does not end the others."""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console

from controller.base import DivergedError
from edgenas_core.command.exit_status import reason
from edgenas_core.command.interruption import end_with
from edgenas_core.command.progress import progress_bar
from edgenas_core.types.errors import UserError
from nas.study.folder import StudyFolder
from nas.study.plan import StudyJob
from nas.study.search_log import save_log, search_setting


def work(
    jobs: Sequence[StudyJob],
    folder: StudyFolder,
    seeds: Sequence[int],
    budget: int,
    *,
    workers: int,
    console: Console,
) -> None:
    """Search the settings that are not finished, and record each in the ledger.

    Raises:
      UserError: if a worker process died.
      OSError: if the folder cannot be written.
    """
    waiting = set(folder.pending([job.setting for job in jobs]))
    pending = sorted(
        (job for job in jobs if job.setting in waiting), key=lambda job: -_cost(job, budget)
    )  # the longest first, so that no process ends long after the others
    console.print(
        f"{len(jobs)} settings of {len(seeds)} seeds x {budget:,} samples, {len(pending)} to go, "
        f"{min(workers, max(len(pending), 1))} at a time -> {folder.path}",
        soft_wrap=True,
    )
    with progress_bar(console) as bar:
        task = bar.add_task("settings", total=len(pending))
        entries = _entries(pending, folder, seeds, budget, workers=workers)
        for count, (job, entry) in enumerate(entries, 1):
            folder.record(job.setting, entry)
            bar.advance(task)
            if not console.is_terminal:
                line = f"{count} / {len(pending)} settings: {job.setting.key} {entry['state']}"
                console.print(line, soft_wrap=True)


def _entries(
    jobs: Sequence[StudyJob],
    folder: StudyFolder,
    seeds: Sequence[int],
    budget: int,
    *,
    workers: int,
) -> Iterator[tuple[StudyJob, dict[str, Any]]]:
    """Each job with its entry of the ledger, in the order in which they end."""
    if min(workers, len(jobs)) <= 1:
        for job in jobs:
            yield job, search_job(job, folder, seeds, budget)
        return
    from joblib import Parallel, delayed  # noqa: PLC0415 - not needed in one process
    from joblib.externals.loky.process_executor import TerminatedWorkerError  # noqa: PLC0415 - loaded when needed

    calls = [delayed(_number)(n, job, folder, seeds, budget) for n, job in enumerate(jobs)]
    parallel = Parallel(
        workers,
        backend="loky",
        batch_size=1,
        pre_dispatch="n_jobs",
        return_as="generator_unordered",
        initializer=_begin_worker,
        initargs=(os.getpid(),),
    )
    try:
        for number, entry in parallel(calls):
            yield jobs[number], entry
    except TerminatedWorkerError as error:
        raise UserError(
            f"a worker process died, perhaps for lack of memory; finished settings are kept, continue "
            f"with resume={folder.path}, or with workers=1"
        ) from error


def _begin_worker(parent: int) -> None:
    """Prepare a process before it waits for its first job: its parent may be killed meanwhile."""
    end_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and ends the workers


def _number(
    number: int, job: StudyJob, folder: StudyFolder, seeds: Sequence[int], budget: int
) -> tuple[int, dict[str, Any]]:
    return number, search_job(job, folder, seeds, budget)


def search_job(
    job: StudyJob, folder: StudyFolder, seeds: Sequence[int], budget: int
) -> dict[str, Any]:
    """Search one setting and write its log; returns its entry of the ledger.

    Raises:
      OSError: if the folder cannot be written.
    """
    try:
        log = search_setting(job, seeds, budget)
    except Exception as error:  # noqa: BLE001 - any error; the other settings go on
        return {"state": "failed", "error": _why(error)}
    path = folder.file(job.setting)
    save_log(path, job.problem.space, log)
    file = str(path.relative_to(folder.path))
    return {"state": "finished", "file": file, "seconds": round(log.seconds, 3)}


def _why(error: Exception) -> str:
    if isinstance(error, UserError | DivergedError):
        return str(error)
    if isinstance(error, OSError):
        return reason(error)
    return "".join(traceback.format_exception(error))[-4000:]


def _cost(job: StudyJob, budget: int) -> float:
    """Duration of a setting's search, in arbitrary units.

    A step costs about as much as five samples of 32 seeds; measured with controller=rnn.
    """
    return -(-budget // job.controller.batch_size) + budget / 5
