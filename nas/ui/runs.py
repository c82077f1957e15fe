"""The runs of a folder, from their summaries and journals alone.

Folders may be other people's: nothing in them is believed to be what it should, nor read beyond a limit.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import final

from common.types.errors import UserError
from nas.report.summary import Summary, read_summary

FILES = {
    "report.html": ("report.html", "text/html; charset=utf-8", 64 << 20),
    "curves.png": ("figures/curves.png", "image/png", 8 << 20),
    "summary.json": ("summary.json", "text/plain; charset=utf-8", 1 << 20),
}
"""Name in an address -> path in a run's folder, type and most bytes. Nothing else is served."""

_MOST_RUNS = 2000
_TAIL = 1 << 18  # bytes of a journal that are looked at
_ASKED = re.compile(rb'^\["asked",(\d{1,12}),', re.MULTILINE)


@final
@dataclass(frozen=True)
class FoundRun:
    """One run: its summary where it has finished, else how far it has come."""

    name: str  # <date>/<time>-...
    summary: Summary | None = None
    wrong: str = ""  # why its summary cannot be read
    asked: int = 0  # trials, of a run that has not finished
    changed_s: float = 0.0  # when its journal was written last, seconds since the epoch
    files: frozenset[str] = frozenset()  # those of `FILES` that it has


def found_runs(root: Path) -> Iterator[FoundRun]:
    """The newest runs of a folder, the last first."""
    names = [
        f"{day}/{name}"
        for day in _folders(root)
        for name in _folders(root / day)
        if "/" not in name
    ]
    for name in sorted(names, reverse=True)[:_MOST_RUNS]:
        run = _run(root, name)
        if run is not None:
            yield run


def served_file(root: Path, name: str, file: str) -> tuple[bytes, str] | None:
    """Content and type of a file of a run; None where there is none that may be served."""
    if file not in FILES:
        return None
    within, kind, most = FILES[file]
    content = _read(root, f"{name}/{within}", most)
    return None if content is None else (content, kind)


def _folders(path: Path) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _run(root: Path, name: str) -> FoundRun | None:
    has = frozenset(
        file for file, (within, _, most) in FILES.items() if _size(root, f"{name}/{within}", most)
    )
    path = root / name / "summary.json"
    if "summary.json" in has:
        about = path.stat()
        summary, wrong = _summary(path, about.st_mtime_ns, about.st_size)
        return FoundRun(name, summary, wrong, files=has)
    journal = root / name / "journal.jsonl"
    tail = _read(root, f"{name}/journal.jsonl", _TAIL, only_tail=True)
    if tail is None:
        return None
    asked = [int(first) for first in _ASKED.findall(tail)]
    return FoundRun(name, asked=max(asked, default=0), changed_s=journal.stat().st_mtime, files=has)


@lru_cache(maxsize=_MOST_RUNS)
def _summary(path: Path, _changed_ns: int, _bytes: int) -> tuple[Summary | None, str]:
    try:
        return read_summary(path), ""
    except (UserError, OSError) as error:
        return None, str(error)


def _size(root: Path, name: str, most: int) -> bool:
    """Whether there is a plain file within the folder that is no larger than this."""
    path = root / name
    try:
        about = path.stat()
        is_within = path.resolve(strict=True).is_relative_to(root.resolve(strict=True))
    except (OSError, ValueError, RuntimeError):  # RuntimeError: links in a circle
        return False
    return is_within and stat.S_ISREG(about.st_mode) and about.st_size <= most


def _read(root: Path, name: str, most: int, *, only_tail: bool = False) -> bytes | None:
    if not _size(root, name, 1 << 62 if only_tail else most):
        return None
    try:
        with (root / name).open("rb") as file:
            if only_tail:
                file.seek(max(0, os.fstat(file.fileno()).st_size - most))
            return file.read(most)
    except OSError:
        return None
