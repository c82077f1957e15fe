"""A sweep (`-m`): its runs labelled while they run, and compared in a table at the end.

Jobs may run in other processes, so each leaves a record in the sweep's folder.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from hydra.core.hydra_config import HydraConfig
from hydra.experimental.callback import Callback
from omegaconf import DictConfig
from rich.console import Console
from rich.table import Table

from edgenas_core.command.console import say
from edgenas_core.command.json_output import add_result
from edgenas_core.files.typed_json import read_json, write_json
from edgenas_core.types.errors import UserError
from edgenas_core.types.printable import printable
from nas.report.answer import OVERVIEW, Answer, Status, overview
from nas.report.result import result_of
from nas.report.run_folder import RunFolder
from nas.report.summary import read_summary

_begun: list[Path] = []
"""Folder of this process's sweep, which Hydra tells `BegunJob`."""


@final
class BegunJob(Callback):
    """Hydra's callback (conf/search.yaml, conf/fit.yaml): notes the folder of a sweep."""

    def on_multirun_start(self, config: DictConfig, **_: Any) -> None:
        """Note the folder that all jobs share."""
        _begun.append(Path(config.hydra.sweep.dir).absolute())


@final
@dataclass(frozen=True)
class SweepJob:
    """One job of a sweep: its settings, and the folder of its run or the error that ended it."""

    words: tuple[str, ...]
    folder: str | None
    error: str | None


def run_job(search: Callable[[Console], RunFolder]) -> None:
    """Run the job that Hydra started and write its record; an error is printed and recorded."""
    asked = HydraConfig.get()
    number, words = int(asked.job.num), tuple(asked.overrides.task)
    is_parallel = not str(asked.launcher["_target_"]).endswith("BasicLauncher")
    label = f"[{number}] " if is_parallel else ""
    out: Any = _Labelled(label) if is_parallel else None
    folder, error = None, None
    try:
        folder = str(search(Console(file=out, highlight=False, emoji=False)).path.absolute())
    except UserError as raised:
        error = printable(" ".join(str(raised).split()))
        sys.stderr.write(f"edgenas: {label}{error}\n")
    write_json(Path(asked.sweep.dir) / f"job-{number}.json", SweepJob(words, folder, error))


@final
class _Labelled(io.TextIOBase):
    """Standard output with a label before each line, written a whole line at a time."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._rest = ""

    def write(self, text: str) -> int:
        """Write whole lines; the rest waits."""
        *lines, self._rest = (self._rest + text).split("\n")
        sys.stdout.write("".join(f"{self._label}{line}\n" for line in lines))
        sys.stdout.flush()
        return len(text)


def compare_runs(console: Console) -> bool:
    """Print a table of the sweep's runs; returns False if a run could not be made.

    Without a sweep in this process nothing is done.

    Raises:
      UserError: if a record or a summary cannot be read, or there was no run.
    """
    if not _begun:
        return True
    folder = _begun.pop()
    paths = sorted(folder.glob("job-*.json"), key=lambda path: int(path.stem[4:]))
    if not paths:
        raise UserError(
            "-m: there is nothing to run, as a glob(...) or range(...) names no value; name values, as in seed=0,1,2"
        )
    try:
        jobs = [read_json(path, SweepJob) for path in paths]
    except (OSError, ValueError) as error:
        raise UserError(f"{folder} holds a damaged record of a job: {error}") from error
    answers = {
        label: Answer(read_summary(RunFolder(Path(job.folder)).summary))
        for label, job in zip(_labels([job.words for job in jobs]), jobs, strict=True)
        if job.folder is not None
    }
    for job in jobs:
        made = RunFolder(Path(job.folder)) if job.folder is not None else None
        result = {} if made is None else result_of(made, read_summary(made.summary))
        add_result(settings=list(job.words), error=job.error, **result)
    if answers:
        _print(console, answers)
    return all(job.error is None for job in jobs)


def _labels(words: Sequence[Sequence[str]]) -> list[str]:
    """The settings in which each job differs from another; numbered where two are the same."""
    common = set.intersection(*map(set, words)) if len(words) > 1 else set()
    labels = [" ".join(word for word in each if word not in common) or "run" for each in words]
    return [
        label if labels.count(label) == 1 else f"{label} ({number})"
        for number, label in enumerate(labels)
    ]


def _print(console: Console, answers: dict[str, Answer]) -> None:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("run", *OVERVIEW):
        table.add_column(name, justify="left" if name == "run" else "right", overflow="fold")
    for label, answer in answers.items():
        table.add_row(label, *overview(answer, answer.best))
    console.print(table, markup=False)
    say(console, _most_accurate(answers))


def _most_accurate(answers: dict[str, Answer]) -> str:
    """The run with the most accurate network, where all searched the same problem."""
    problems = {
        (answer.limits, answer.summary.device, answer.summary.settings.space, *_measure(answer))
        for answer in answers.values()
    }
    if len(problems) > 1:
        return "The runs search different problems: compare those of the same one."
    best = {label: answer.best for label, answer in answers.items() if answer.best is not None}
    if not best:
        return f"In every run {Status.none.value}."
    label = max(best, key=lambda name: best[name].accuracy.value)
    return (
        f"The most accurate network within T is of {label}: `{best[label].arch}`. "
        f"`python -m nas.study` tells luck from better, over many seeds."
    )


def _measure(answer: Answer) -> tuple[str, int, str]:
    """What an accuracy is: the data set, the length of training and the source."""
    settings = answer.summary.settings
    return settings.dataset_title, settings.epochs, answer.summary.accuracy_description
