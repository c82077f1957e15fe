"""The page over the runs of a folder; a run is read from its summary or journal alone.

Folders may be other people's: nothing in them is believed to be what it should, nor read beyond a
limit, and the page escapes every text.
"""

from __future__ import annotations

import os
import re
import stat
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

from common.page.document import HtmlPage, Section
from common.page.parts import Cell, Link, Table
from common.types.errors import UserError
from nas.report.answer import OVERVIEW, Answer, overview
from nas.report.summary import read_summary

_HEADER = ("run", *OVERVIEW, "limits", "device", "searched by", "trials", "best trial")
_CAPTION = "The network to use, and the gap from the best trial to the optimum. ~: predicted, not measured."
_MOST_RUNS = 2000
_MOST_BYTES = 1 << 20  # of a summary
_TAIL = 1 << 18  # bytes of a journal that are looked at
_ASKED = re.compile(rb'^\["asked",(\d{1,12}),', re.MULTILINE)


def runs_page(root: Path) -> HtmlPage:
    """A row a run, the newest first."""
    names = [f"{day}/{name}" for day in _folders(root) for name in _folders(root / day)]
    rows = [row for name in sorted(names, reverse=True)[:_MOST_RUNS] if (row := _row(root, name))]
    table = Table(_HEADER, rows, _CAPTION, is_filtered=True)
    now = datetime.now().astimezone()
    return HtmlPage(
        f"Runs in `{root}`",
        f"{now:%Y-%m-%d %H:%M}, newest first. A click on a title sorts.",
        [],
        sections=[Section("Runs", [table] if rows else ["There are none."])],
    )


def _row(root: Path, name: str) -> list[Cell] | None:
    """The row of a run; None for a folder that is none."""
    run = root / name
    label: Cell = name
    if _is_file(root, run / "report.html"):
        label = Link(name, quote(f"{name}/report.html"))
    if _is_file(root, run / "summary.json", _MOST_BYTES):
        try:
            answer = Answer(read_summary(run / "summary.json"))
            return [label, *_finished(answer)]
        except (UserError, OSError) as error:
            return [label, *[None] * (len(_HEADER) - 2), str(error)]
    if not _is_file(root, run / "journal.jsonl"):
        return None
    asked = max(map(int, _ASKED.findall(_tail(run / "journal.jsonl"))), default=0)
    return [label, *[None] * (len(_HEADER) - 3), f"{asked:,}", "not finished"]


def _finished(answer: Answer) -> list[Cell]:
    summary, settings = answer.summary, answer.summary.settings
    return [
        *overview(answer, answer.network),
        answer.limits,
        f"{summary.device}, {answer.dataset}",
        f"{settings.controller}, {settings.reward}, seed {settings.seed}",
        f"{summary.samples:,}",
        answer.status.value,
    ]


def _folders(path: Path) -> list[str]:
    try:
        with os.scandir(path) as entries:
            names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
            return [name for name in names if name.isprintable()]  # so that it can be an address
    except OSError:
        return []


def _is_file(root: Path, path: Path, most: int | None = None) -> bool:
    """Whether it is a plain file within the folder, of so many bytes at most."""
    try:
        status = path.stat()
        is_within = path.resolve(strict=True).is_relative_to(root.resolve(strict=True))
    except (OSError, ValueError, RuntimeError):  # RuntimeError: links in a circle
        return False
    return is_within and stat.S_ISREG(status.st_mode) and (most is None or status.st_size <= most)


def _tail(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
            return file.read(_TAIL)
    except OSError:
        return b""
