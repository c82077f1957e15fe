"""The schedulability study, one scenario and threshold at a time, spread over processes.

Each scenario and threshold has a file of its own in `<out>/cells`, from which an interrupted study
continues. The same seed gives the same sets, whatever the number of processes.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.papers.config import BenchConfig, StudyConfig
from benchmarks.papers.results import Results, Row
from benchmarks.papers.schedulability.scenarios import (
    SCENARIOS,
    THRESHOLDS,
    Share,
    schedulability,
)
from common.files.atomic_file import write_whole
from common.page.print import print_lines

_Cell = tuple[str, float]
"""Scenario and threshold."""


def measure(config: BenchConfig, results: Results, path: Path, console: Console) -> None:
    """Compute the missing shares, and write all of them as results.

    Raises:
      ValueError: if a scenario or threshold is unknown, or the folder holds shares that were
        computed with other settings.
      OSError: if a file cannot be written.
    """
    study = config.studying
    _require_some_of(study.scenarios, [*SCENARIOS], "scenarios")
    _require_some_of(study.thresholds, [*THRESHOLDS], "thresholds")
    settings = {"sets": study.sets, "seed": study.seed, "time_limit_s": study.time_limit_s}
    wanted = [(name, threshold) for threshold in study.thresholds for name in study.scenarios]
    paths = {cell: path.parent / "cells" / f"{cell[0]}-{cell[1]}.json" for cell in wanted}
    found = {cell: _read(one, settings) for cell, one in paths.items() if one.exists()}
    missing = [cell for cell in wanted if cell not in found]
    print_lines(
        console,
        f"{len(wanted)} scenarios and thresholds of {study.sets:,} sets, {len(missing)} to compute "
        f"-> {path.parent}",
    )
    try:
        for cell, shares in _computed(missing, study):
            content = {"settings": settings, "shares": [asdict(share) for share in shares]}
            write_whole(paths[cell], json.dumps(content, indent=1) + "\n")
            found[cell] = shares
            console.print(f"{len(found)} of {len(wanted)}: {_line(cell, shares)}", soft_wrap=True)
    finally:  # after Ctrl-C, too
        results.rows = [row for cell in wanted if cell in found for row in _rows(cell, found[cell])]
        results.is_complete = len(found) == len(wanted)
        results.write(path)


def _require_some_of(chosen: list[Any], allowed: list[Any], name: str) -> None:
    if not chosen or any(one not in allowed for one in chosen):
        raise ValueError(f"studying.{name}={chosen} must be some of {', '.join(map(str, allowed))}")


def _computed(cells: list[_Cell], study: StudyConfig) -> Iterator[tuple[_Cell, list[Share]]]:
    compute = partial(_compute, study.sets, study.seed, study.time_limit_s)
    if study.workers == 1 or len(cells) < 2:
        yield from map(compute, cells)
        return
    with get_context("spawn").Pool(study.workers, _ignore_interrupts) as pool:
        yield from pool.imap_unordered(compute, cells)


def _compute(sets: int, seed: int, time_limit_s: float, cell: _Cell) -> tuple[_Cell, list[Share]]:
    scenario, threshold = cell
    return cell, schedulability(
        SCENARIOS[scenario], threshold, count=sets, seed=seed, time_limit_s=time_limit_s
    )


def _ignore_interrupts() -> None:
    """Ctrl-C reaches all processes; the first process ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _read(path: Path, settings: dict[str, Any]) -> list[Share]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        theirs = content["settings"]
        shares = [Share(**share) for share in content["shares"]]
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} holds no shares of a study: {error}; remove it") from error
    if theirs != settings:
        raise ValueError(
            f"{path} was computed with {theirs}, this study has {settings}; give another out="
        )
    return shares


def _line(cell: _Cell, shares: list[Share]) -> str:
    parts = ", ".join(f"{one.column} {one.feasible / one.sets:.1%}" for one in shares)
    return f"{cell[0]} at {cell[1]}: {parts}"


def _rows(cell: _Cell, shares: list[Share]) -> list[Row]:
    scenario, threshold = cell
    return [{"scenario": scenario, "threshold": threshold, **asdict(share)} for share in shares]
