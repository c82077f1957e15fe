"""The command line of a search or a fit: Hydra composes, one run follows, or a sweep of runs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import psutil
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig
from rich.console import Console

from controller.base import DivergedError
from edgenas_core.command.console import Heartbeat, PlainConsole, say
from edgenas_core.command.exit_status import USER_ERROR, one_line_errors
from edgenas_core.command.hydra_command import chosen_names, hydra_command, user_errors
from edgenas_core.command.json_output import add_result
from latency.base import UnmeasuredError

if TYPE_CHECKING:
    from nas.report.run_folder import RunFolder
    from nas.runs.begin import RunKind
    from nas.runs.run import OnTrials

USER_ERRORS = (DivergedError, UnmeasuredError)
"""Errors of the user, besides `UserError` and `OSError`."""


def run_command_line(
    module: str, file: str, words: Sequence[str], kind: Callable[[], RunKind[Any]], about: str
) -> None:
    """Run the command line's run, or its sweep; status 2 if a run of a sweep could not be made.

    Args:
      module: what is started, such as nas.search.
      file: its settings in conf/, without the ending.
      words: settings and options.
      kind: imports what the run is made of, which `--help` does not wait for.
      about: what `--help` prints before the settings.

    Raises:
      SystemExit: as `hydra_command` does.
    """

    def run(composed: DictConfig) -> None:
        _run(composed, module, kind())

    hydra_command(module, file, run, *USER_ERRORS, words=words, about=about)
    if "nas.runs.sweep" not in sys.modules:  # no job of a sweep has run
        return
    with one_line_errors():
        from nas.runs.sweep import compare_runs  # noqa: PLC0415 - `--help` does not wait for it

        if not compare_runs(PlainConsole()):
            sys.exit(USER_ERROR)


def _run(composed: DictConfig, module: str, kind: RunKind[Any]) -> None:
    """Begin and complete the run that Hydra composed, or the job of a sweep."""
    hydra = HydraConfig.get()
    choices, words = chosen_names(), list(hydra.overrides.task)

    def job(console: Console) -> RunFolder:
        with user_errors(module, *USER_ERRORS):
            return complete_run(kind, composed, choices, words, console)

    if hydra.mode is RunMode.MULTIRUN:
        from nas.runs.sweep import run_job  # noqa: PLC0415 - loaded when needed

        run_job(job)
    else:
        console = PlainConsole()
        read = next(filter(None, map(composed.get, ("resume", "data", "learner"))), None)
        if read is not None:  # which, with the libraries for it, takes a while
            say(console, f"reading {read}")
        from nas.runs.begin import begin  # noqa: PLC0415 - loaded when needed

        age_s = time.time() - psutil.Process().create_time()  # a busy machine starts it slowly
        began_s = time.monotonic() - max(0.0, age_s)
        hours = composed.get("hours") if composed.resume is None else None
        with Heartbeat(console, began_s, hours):
            console.stage = "reading"
            try:
                run = begin(kind, composed, choices, words, console, began_s=began_s)
            except KeyboardInterrupt:
                again = "resume= goes on as before" if composed.resume else "run it again to begin"
                console.print(f"nothing was written: {again}")
                raise
            console.stage = "searching"
            summary = run.complete()
        from nas.report.result import result_of  # noqa: PLC0415 - loaded when needed

        add_result(**result_of(run.begun.folder, summary, run.begun.experiment.data))


def complete_run(
    kind: RunKind[Any],
    composed: DictConfig,
    choices: Mapping[str, str],
    words: Sequence[str],
    console: Console,
    *,
    on_trials: OnTrials | None = None,
) -> RunFolder:
    """Run to the end, in a folder of its own or in the one to resume; returns the folder.

    Raises:
      UserError: if a setting cannot work, a source cannot answer, or a file is corrupt.
      OSError: if a folder cannot be written.
    """
    from nas.runs.begin import begin  # noqa: PLC0415 - loaded when needed
    from nas.runs.run import nothing  # noqa: PLC0415 - loaded when needed

    run = begin(kind, composed, choices, words, console, on_trials=on_trials or nothing)
    run.complete()
    return run.begun.folder
