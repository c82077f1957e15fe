"""The page over the runs of a folder, each read from its summary, or from its settings and journal.

Folders may be other people's: nothing in them is believed to be what it should, nor read beyond a
limit, and the page escapes every text.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import final
from urllib.parse import quote

from edgenas_core.files.file_lock import is_held
from edgenas_core.files.safe_yaml import load_settings
from edgenas_core.files.typed_json import read_json, typed_record
from edgenas_core.page.document import HtmlPage, Section
from edgenas_core.page.parts import Cell, Link, Table
from edgenas_core.types.errors import UserError
from edgenas_core.types.printable import printable
from nas.report.answer import OVERVIEW, Answer, Status, overview
from nas.report.summary import read_summary

_HEADER = ("run", *OVERVIEW, "baseline", "limits", "device", "searched by", "trials", "state")
_CAPTION = "The network to use, and the gap from the best trial to the optimum. ~: predicted, not measured."
_MOST_RUNS = 2000
_MOST_BYTES = 1 << 20  # of a summary
_MOST_SETTINGS = 1 << 14  # bytes
_END = 1 << 18  # bytes at each end of a journal that are looked at
_ASKED = re.compile(rb'^\["asked",(\d{1,12}),', re.MULTILINE)
_NOTED = re.compile(rb'^\["noted","(candidates|winner)",', re.MULTILINE)
_STAGES = {b"": "scoring", b"candidates": "ranking", b"winner": "training the winner"}
"""Stage of a fit by the last decision in its journal."""


@final
@dataclass(frozen=True)
class _RunValues:
    """Settings of a search or a fit."""

    T: str | tuple[str, ...]  # several of a fit
    E: str | None
    P: str | None
    seed: int
    budget: int = 0
    data: str | None = None
    learner: str | None = None
    RAM: str | None = None
    flash: str | None = None


@final
@dataclass(frozen=True)
class _StoredRun:
    """Part of the `config.yaml` of a search or a fit."""

    choices: dict[str, str]
    sources: dict[str, str]
    values: _RunValues


@final
@dataclass(frozen=True)
class _StudyValues:
    """Settings of a study."""

    name: str
    rewards: tuple[str, ...]
    controllers: tuple[str, ...]
    devices: tuple[str, ...]
    limits: tuple[str, ...]
    seeds: int


@final
@dataclass(frozen=True)
class _StoredStudy:
    """Part of the `config.yaml` of a study."""

    values: _StudyValues


@final
@dataclass(frozen=True)
class _Ledger:
    """Part of the `study.json` of a study."""

    settings: dict[str, _LedgerEntry]


@final
@dataclass(frozen=True)
class _LedgerEntry:
    """One of its settings."""

    state: str


def runs_page(root: Path) -> HtmlPage:
    """A row a run, the newest first."""
    names = [f"{day}/{name}" for day in _folders(root) for name in _folders(root / day)]
    rows = [row for name in sorted(names, reverse=True)[:_MOST_RUNS] if (row := _row(root, name))]
    table = Table(_HEADER, rows, _CAPTION, is_filtered=True)
    now = datetime.now().astimezone()
    return HtmlPage(
        f"Runs in `{printable(str(root))}`",
        f"{now:%Y-%m-%d %H:%M}, newest first. A click on a title sorts.",
        [],
        sections=[Section("Runs", [table] if rows else ["There are none."])],
    )


def _row(root: Path, name: str) -> list[Cell] | None:
    """The row of a run; None for a folder that is none."""
    run = root / name
    label: Cell = printable(name)
    if _is_file(root, run / "report.html"):
        label = Link(printable(name), quote(os.fsencode(f"{name}/report.html")))
    try:
        if _is_file(root, run / "summary.json", _MOST_BYTES):
            cells = _finished(Answer(read_summary(run / "summary.json")))
        elif not _is_file(root, run / "config.yaml", _MOST_SETTINGS):
            return None
        elif _is_file(root, run / "study.json", _MOST_BYTES):
            cells = _study(run)
        else:
            cells = _unfinished(root, run)
    except (UserError, ValueError, OSError) as error:
        cells = [str(error)]
    cells = [printable(cell) if isinstance(cell, str) else cell for cell in cells]
    return [label, *[None] * (len(_HEADER) - 1 - len(cells)), *cells]


def _finished(answer: Answer) -> list[Cell]:
    summary, settings, network = answer.summary, answer.summary.settings, answer.network
    rule = answer.summary.baseline
    chance = ", no better than chance" if network is not None and network.at_chance else ""
    return [
        *overview(answer, network),
        None if rule is None else f"{rule.line}, {rule.fidelity}",
        answer.limits,
        f"{summary.device}, {answer.dataset}",
        ", ".join(filter(None, (settings.controller, settings.reward, f"seed {settings.seed}"))),
        f"{summary.samples:,}",
        "UNCONFIRMED: " * (answer.status is Status.unconfirmed) + answer.status.value + chance,
    ]


def _unfinished(root: Path, run: Path) -> list[Cell]:
    """The last cells of a run that goes on or was interrupted."""
    stored = typed_record(load_settings(run / "config.yaml"), _StoredRun)
    values, choices = stored.values, stored.choices
    journal = run / "journal.jsonl"
    ends = _ends(journal) if _is_file(root, journal) else b""
    asked = max(map(int, _ASKED.findall(ends)), default=0)
    is_fit = not (values.data is None and values.learner is None)
    if not is_fit:
        done = f"{asked:,} of {values.budget:,}, {asked / max(1, values.budget):.0%}"
        how = f"{choices.get('controller')}, {choices.get('reward')}, seed {values.seed}"
    else:
        done = f"{asked:,}, {_STAGES[[b'', *_NOTED.findall(ends)][-1]]}"
        how = f"seed {values.seed}"
    limits = {name: getattr(values, name) for name in ("T", "E", "P", "RAM", "flash")}
    if isinstance(values.T, tuple):
        limits["T"] = " or ".join(values.T)
    return [
        ", ".join(f"{symbol} = {limit}" for symbol, limit in limits.items() if limit is not None),
        stored.sources.get("device"),
        how,
        done,
        _state(run / "config.yaml", "fit" if is_fit else "search"),
    ]


def _study(run: Path) -> list[Cell]:
    """The last cells of a study."""
    values = typed_record(load_settings(run / "config.yaml"), _StoredStudy).values
    states = [entry.state for entry in read_json(run / "study.json", _Ledger).settings.values()]
    finished = states.count("finished")
    is_whole = finished == len(states)
    return [
        ", ".join(values.limits),
        ", ".join(values.devices),
        f"study {values.name}: {', '.join((*values.controllers, *values.rewards))}, {values.seeds} seeds",
        f"{finished:,} of {len(states):,} settings",
        "finished" if is_whole else _state(run / "lock", "study"),
    ]


def _state(lock: Path, command: str) -> str:
    if is_held(lock):
        return "running"
    resume = shlex.join(["python", "-m", f"nas.{command}", f"resume={lock.parent}"])
    return f"interrupted, go on with `{printable(resume)}`"


def _folders(path: Path) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _is_file(root: Path, path: Path, most: int | None = None) -> bool:
    """Whether the path is a regular file inside the folder with at most this many bytes."""
    try:
        status = path.stat()
        is_within = path.resolve(strict=True).is_relative_to(root.resolve(strict=True))
    except (OSError, ValueError, RuntimeError):  # RuntimeError: links in a circle
        return False
    return is_within and stat.S_ISREG(status.st_mode) and (most is None or status.st_size <= most)


def _ends(path: Path) -> bytes:
    """Beginning and end of a file."""
    with path.open("rb") as file:
        first = file.read(_END)
        file.seek(max(len(first), os.fstat(file.fileno()).st_size - _END))
        return first + b"\n" + file.read(_END)
