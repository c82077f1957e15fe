"""A sweep (`-m`): its runs labelled while they run, and compared in a table and a page at the end.

Jobs may run in other processes, so each leaves a record in the sweep's folder.
"""

from __future__ import annotations

import io
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from hydra.core.hydra_config import HydraConfig
from hydra.experimental.callback import Callback
from omegaconf import DictConfig
from rich.console import Console
from rich.table import Table as TerminalTable

from common.command.console import say
from common.files.atomic_file import replacing
from common.files.typed_json import read_json, write_json
from common.page.document import Page, Section
from common.page.parts import Note, Table
from common.types.errors import UserError
from common.types.printable import printable
from nas.report.answer import OVERVIEW, Answer, overview
from nas.report.run_folder import RunFolder
from nas.report.summary import read_summary

_begun: list[Path] = []
"""Folder of this process's sweep, which Hydra tells `Begun`."""


@final
class Begun(Callback):
    """Hydra's callback (conf/search.yaml): notes the folder of a sweep."""

    def on_multirun_start(self, config: DictConfig, **_: Any) -> None:
        """Note the folder that all jobs share."""
        _begun.append(Path(config.hydra.sweep.dir).absolute())


@final
@dataclass(frozen=True)
class Job:
    """One job of a sweep: its settings, and the folder of its run or the error that ended it."""

    words: tuple[str, ...]
    folder: str | None
    error: str | None


def run_job(search: Callable[[Console], RunFolder]) -> None:
    """Run the job that Hydra has begun, and leave its record; an error is told and recorded."""
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
    write_json(Path(asked.sweep.dir) / f"job-{number}.json", Job(words, folder, error))


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
    """Print a table of the sweep's runs and write its page; returns False if a run could not be made.

    Without a sweep in this process nothing is done.

    Raises:
      UserError: if a record or a summary cannot be read.
    """
    if not _begun:
        return True
    folder = _begun.pop()
    paths = sorted(folder.glob("job-*.json"), key=lambda path: int(path.stem[4:]))
    try:
        records = [read_json(path, Job) for path in paths]
    except (OSError, ValueError) as error:
        raise UserError(f"{folder} holds a damaged record of a job: {error}") from error
    labels = _labels([job.words for job in records])
    jobs = dict(zip(labels, records, strict=True))
    answers = {
        label: Answer(read_summary(RunFolder(Path(job.folder)).summary))
        for label, job in jobs.items()
        if job.folder is not None
    }
    if answers:
        _print(console, answers)
        page = folder / "report.html"
        with replacing(page) as file:
            file.write(_page(answers, jobs).html().encode())
        console.print(f"next: open {page}", soft_wrap=True, markup=False)
    return all(job.error is None for job in records)


def _labels(words: Sequence[Sequence[str]]) -> list[str]:
    """The settings in which each job differs from another; numbered where two are the same."""
    common = set.intersection(*map(set, words)) if len(words) > 1 else set()
    labels = [" ".join(word for word in each if word not in common) or "run" for each in words]
    return [
        label if labels.count(label) == 1 else f"{label} ({number})"
        for number, label in enumerate(labels)
    ]


def _table(answers: dict[str, Answer]) -> tuple[list[str], list[list[str]]]:
    rows = [[label, *overview(answer, answer.best)] for label, answer in answers.items()]
    return ["run", *OVERVIEW], rows


def _print(console: Console, answers: dict[str, Answer]) -> None:
    table = TerminalTable(box=None, header_style="bold", pad_edge=False)
    header, rows = _table(answers)
    for name in header:
        table.add_column(name, justify="left" if name == "run" else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
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
        return "No run found a network within its limits."
    label = max(best, key=lambda name: best[name].accuracy.value)
    return (
        f"The most accurate network within T is of {label}: `{best[label].arch}`. "
        f"`python -m nas.study` tells luck from better, over many seeds."
    )


def _measure(answer: Answer) -> tuple[str, int, str]:
    """What an accuracy is: the data set, the length of training and the source."""
    settings = answer.summary.settings
    return settings.dataset_title, settings.epochs, answer.summary.accuracy_description


def _page(answers: dict[str, Answer], jobs: dict[str, Job]) -> Page:
    """The comparison, the jobs that failed, and the settings that all jobs share."""
    first = next(iter(answers.values()))
    header, rows = _table(answers)
    rows = [
        [*row, answer.summary.settings.controller, f"`{jobs[label].folder}`"]
        for row, (label, answer) in zip(rows, answers.items(), strict=True)
    ]
    caption = (
        "The best network of each run: accuracy searched on, test accuracy, latency, distance to the "
        "optimum where that is known, share of the samples within the limits."
    )
    sections = [Section("Runs", [Table([*header, "controller", "folder"], rows, caption)])]
    failed = [[label, job.error] for label, job in jobs.items() if job.error is not None]
    if failed:
        sections.append(Section("Runs that could not be made", [Table(["run", "error"], failed)]))
    notes = dict.fromkeys(note for answer in answers.values() for note in answer.notes)
    words = [job.words for job in jobs.values()]
    common = [word for word in words[0] if all(word in each for each in words)]
    return Page(
        title=f"{len(jobs)} runs compared",
        subtitle=f"A sweep of {first.summary.settings.space} on {first.summary.device}, {first.dataset}",
        answer=[_most_accurate(answers), *map(Note, notes)],
        sections=sections,
        provenance={
            "settings of all runs": f"`{shlex.join(['python', '-m', 'nas.search', *common])}`",
            **first.sources,
        },
    )
