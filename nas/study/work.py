"""Search the settings of a study in several processes; a failed one does not end the others."""

from __future__ import annotations

import os
import signal
import time
import traceback
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any, final

from rich.console import Console
from rich.progress import TaskProgressColumn

from common.command.exit_status import reason
from common.command.parent import end_with
from common.command.progress import progress_bar
from common.types.errors import UserError
from controller.base import DivergedError
from nas.study.config import Backend
from nas.study.folder import StudyFolder
from nas.study.plan import Job
from nas.study.search_log import save_log, search_setting


@final
class Outcome(Enum):
    """State in which a process leaves a job."""

    finished = "finished"
    failed = "failed"
    elsewhere = "elsewhere"  # another process has it, or has finished it


def work(
    jobs: Sequence[Job],
    folder: StudyFolder,
    seeds: Sequence[int],
    budget: int,
    *,
    workers: int,
    backend: Backend,
    console: Console,
) -> None:
    """Search the settings that are not finished and that no other process has.

    Raises:
      UserError: if a worker process died, or the backend is not installed.
      OSError: if the folder cannot be written.
    """
    waiting = set(folder.pending([job.setting for job in jobs]))
    pending = sorted(
        (job for job in jobs if job.setting in waiting), key=lambda job: -_work(job, budget)
    )  # the longest first, so that no process ends long after the others
    console.print(
        f"{len(jobs)} settings of {len(seeds)} seeds x {budget:,} samples, {len(pending)} to go, "
        f"{min(workers, max(len(pending), 1))} at a time -> {folder.path}",
        soft_wrap=True,
    )
    with _Progress(console, [_work(job, budget) for job in pending]) as progress:
        outcomes = _outcomes(pending, folder, seeds, budget, workers=workers, backend=backend)
        elsewhere = []
        for job, outcome in outcomes:
            progress.add(job, outcome, _work(job, budget))
            if outcome is Outcome.elsewhere:
                elsewhere.append(job)
    for job in elsewhere:  # its process may have been killed; a finished one is left alone
        outcome = search_job(job, folder, seeds, budget)
        if outcome is not Outcome.elsewhere:
            console.print(f"taken over, {outcome.value}: {job.setting.key}", soft_wrap=True)


def _outcomes(
    jobs: Sequence[Job],
    folder: StudyFolder,
    seeds: Sequence[int],
    budget: int,
    *,
    workers: int,
    backend: Backend,
) -> Iterator[tuple[Job, Outcome]]:
    if min(workers, len(jobs)) <= 1 and backend is Backend.loky:
        for job in jobs:
            yield job, search_job(job, folder, seeds, budget)
        return
    from joblib import Parallel, delayed  # noqa: PLC0415 - not needed in one process
    from joblib.externals.loky.process_executor import TerminatedWorkerError  # noqa: PLC0415 - ditto

    calls = [delayed(_in_worker)(n, job, folder, seeds, budget) for n, job in enumerate(jobs)]
    # loky returns each result as it ends; Ray returns all together, so it is given few at once
    rounds, return_as = [calls], "generator_unordered"
    begin: dict[str, Any] = {"initializer": _begin_worker, "initargs": (os.getpid(),)}
    if backend is Backend.ray:
        _start_ray(workers)
        rounds = [calls[start : start + workers] for start in range(0, len(calls), workers)]
        return_as, begin = "list", {}
    parallel = Parallel(
        workers,
        backend=backend.value,
        batch_size=1,
        pre_dispatch="n_jobs",
        return_as=return_as,
        **begin,
    )
    try:
        for some in rounds:
            for number, outcome in parallel(some):
                yield jobs[number], outcome
    except TerminatedWorkerError as error:
        raise UserError(
            f"a worker process died, perhaps for lack of memory; finished settings are kept, continue "
            f"with resume={folder.path}, or with workers=1"
        ) from error


def _start_ray(workers: int) -> None:
    """Start Ray on this machine, open to this machine only, or use the cluster of RAY_ADDRESS."""
    try:
        import ray  # noqa: PLC0415 - an optional extra
        from ray.util.joblib import register_ray  # noqa: PLC0415 - ditto
    except ImportError as error:
        raise UserError("backend=ray needs Ray: pip install ray; or backend=loky") from error
    if not ray.is_initialized() and "RAY_ADDRESS" not in os.environ:
        ray.init(
            num_cpus=workers,
            include_dashboard=False,
            log_to_driver=False,
            _node_ip_address="127.0.0.1",
        )
    register_ray()


def _begin_worker(parent: int) -> None:
    """Prepare a process before it waits for its first job: its parent may be killed meanwhile."""
    end_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and ends the workers


def _in_worker(
    number: int, job: Job, folder: StudyFolder, seeds: Sequence[int], budget: int
) -> tuple[int, Outcome]:
    return number, search_job(job, folder, seeds, budget)


def search_job(job: Job, folder: StudyFolder, seeds: Sequence[int], budget: int) -> Outcome:
    """Search one setting unless another process does, and write its log and its line of the ledger.

    Raises:
      OSError: if the folder cannot be written.
    """
    with folder.claimed(job.setting) as mine:
        if not mine:
            return Outcome.elsewhere
        folder.record(
            job.setting, {"state": "searching", "process": os.getpid()}
        )  # clears a failure
        try:
            log = search_setting(job, seeds, budget)
        except Exception as error:  # noqa: BLE001 - any error; the other settings go on
            folder.record(job.setting, {"state": "failed", "error": _why(error)})
            return Outcome.failed
        save_log(folder.file(job.setting), job.problem.space, log)
        facts = {"seconds": round(log.seconds, 3), "process": os.getpid()}
        file = str(folder.file(job.setting).relative_to(folder.path))
        folder.record(job.setting, {"state": "finished", "file": file, **facts})
    return Outcome.finished


def _why(error: Exception) -> str:
    if isinstance(error, UserError | DivergedError):
        return str(error)
    if isinstance(error, OSError):
        return reason(error)
    return "".join(traceback.format_exception(error))[-4000:]


def _work(job: Job, budget: int) -> float:
    """Duration of a setting's search, in arbitrary units.

    A step costs about as much as five samples of 32 seeds; measured with controller=rnn.
    """
    return -(-budget // job.controller.batch_size) + budget / 5


@final
class _Progress:
    """A bar with the time left on a terminal, a line for each setting elsewhere."""

    def __init__(self, console: Console, works: Sequence[float]) -> None:
        self._console = console
        self._total, self._settings = sum(works), len(works)
        self._done, self._count = 0.0, 0
        self._started_s = time.perf_counter()
        self._bar = progress_bar(console, TaskProgressColumn())
        self._task = self._bar.add_task("", total=self._total)

    def __enter__(self) -> _Progress:
        self._bar.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._bar.stop()

    def add(self, job: Job, outcome: Outcome, work: float) -> None:
        """Count one job that has ended."""
        self._count += 1
        self._done += work
        what = f"{self._count} / {self._settings} settings"
        if self._console.is_terminal:
            self._bar.update(self._task, completed=self._done, description=what)
            return
        spent_s = time.perf_counter() - self._started_s
        left_s = spent_s * (self._total - self._done) / self._done
        said = "" if outcome is Outcome.finished else f" {outcome.value}:"
        self._console.print(
            f"{what}, {left_s / 60:.1f} min left:{said} {job.setting.key}", soft_wrap=True
        )
