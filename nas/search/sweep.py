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
from nas.report.summary import Summary, read_summary
from nas.report.wording import Wording, percent
from nas.search.folder import RunFolder

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
        jobs = [read_json(path, Job) for path in paths]
    except (OSError, ValueError) as error:
        raise UserError(f"{folder} holds a damaged record of a job: {error}") from error
    labels = _labels([job.words for job in jobs])
    found = {
        label: read_summary(RunFolder(Path(job.folder)).summary)
        for label, job in zip(labels, jobs, strict=True)
        if job.folder is not None
    }
    failed = {
        label: job.error for label, job in zip(labels, jobs, strict=True) if job.error is not None
    }
    if found:
        _print(console, found)
        page = folder / "report.html"
        folders = [job.folder or "" for job in jobs if job.folder is not None]
        with replacing(page) as file:
            file.write(_page(found, folders, failed, jobs).html().encode())
        console.print(f"next: open {page}", soft_wrap=True, markup=False)
    return not failed


def _labels(words: Sequence[Sequence[str]]) -> list[str]:
    """The settings in which each job differs from another; numbered where two are the same."""
    common = set.intersection(*map(set, words)) if len(words) > 1 else set()
    labels = [" ".join(word for word in each if word not in common) or "run" for each in words]
    return [
        label if labels.count(label) == 1 else f"{label} ({number})"
        for number, label in enumerate(labels)
    ]


_HEADER = ("run", "accuracy", "test", "latency", "gap, points", "within T")


def _row(label: str, summary: Summary) -> list[str]:
    """The best network of a run; predicted numbers are marked by ~."""
    best, wording = summary.best, Wording(summary)
    if best is None:
        return [label, "none", "-", "-", "-", percent(summary.feasible_share, 1)]
    known = "~" if best.accuracy_is_predicted else ""
    timed = "~" if best.latency_is_predicted else ""
    return [
        label,
        known + wording.accuracy(best.accuracy_searched),
        "-" if best.accuracy_test is None else known + wording.accuracy(best.accuracy_test),
        f"{timed}{best.latency_ms:.3g} ms",
        "-" if summary.gap is None else f"{100 * summary.gap:.2f}",
        percent(summary.feasible_share, 1),
    ]


def _print(console: Console, found: dict[str, Summary]) -> None:
    table = TerminalTable(box=None, header_style="bold", pad_edge=False)
    for name in _HEADER:
        table.add_column(name, justify="left" if name == "run" else "right", overflow="fold")
    for label, summary in found.items():
        table.add_row(*_row(label, summary))
    console.print(table, markup=False)
    say(console, _answer(found))


def _answer(found: dict[str, Summary]) -> str:
    """The run with the most accurate network, where all searched the same problem."""
    problems = {
        (
            one.T_ms,
            tuple((name, limit.limit) for name, limit in one.limits.items()),
            one.device,
            one.settings.space,
            one.settings.dataset_title,
            one.settings.epochs,
            one.accuracy_description,
        )
        for one in found.values()
    }
    if len(problems) > 1:
        return "The runs search different problems: compare those of the same one."
    best = {label: one.best for label, one in found.items() if one.best is not None}
    if not best:
        return "No run found a network within its limits."
    label = max(best, key=lambda one: best[one].accuracy_searched)
    said = f"The most accurate network within T is of {label}: `{best[label].arch}`"
    return f"{said}. `python -m nas.study` tells luck from better, over many seeds."


def _page(
    found: dict[str, Summary], folders: Sequence[str], failed: dict[str, str], jobs: Sequence[Job]
) -> Page:
    first = next(iter(found.values()))
    rows = [
        [*_row(label, one), one.settings.controller, f"`{folder}`"]
        for (label, one), folder in zip(found.items(), folders, strict=True)
    ]
    predicted = any(cell.startswith("~") for row in rows for cell in row)
    notes = [Note("Numbers marked by ~ are predicted, not measured.")] if predicted else []
    common = [word for word in jobs[0].words if all(word in job.words for job in jobs)]
    sections = [
        Section(
            "Runs",
            [
                Table(
                    [*_HEADER, "controller", "folder"],
                    rows,
                    "The best network of each run: accuracy searched on, test accuracy, latency, distance "
                    "to the optimum where that is known, share of the samples within the limits.",
                )
            ],
        )
    ]
    if failed:
        lost = Table(["run", "error"], [list(one) for one in failed.items()])
        sections.append(Section("Runs that could not be made", [lost]))
    return Page(
        title=f"{len(jobs)} runs compared",
        subtitle=f"A sweep of {first.settings.space} on {first.device}, {first.settings.dataset_title}",
        answer=[_answer(found), *notes],
        sections=sections,
        provenance={
            "settings of all runs": f"`{shlex.join(['python', '-m', 'nas.search', *common])}`",
            "accuracy": first.accuracy_description,
            "latency": first.latency_description,
        },
    )
