"""`python -m runtime.map study=<folder>`: the schedulability study, a cell at a time, over processes.

A cell is a scenario at a threshold; its file says that it is finished, so that a study goes on where it
was interrupted. The same seed gives the same sets, whatever runs beside.
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

from runtime.experiments.schedulability.schedulability import SCENARIOS, Share, schedulability
from runtime.experiments.schedulability.study_page import study_page
from runtime.experiments.schedulability.verdict import verdict
from runtime.mapping.config import StudyConfig
from runtime.shell.atomic_file import write_whole

Cell = tuple[str, float]
"""Scenario and threshold."""

Cells = dict[Cell, list[Share]]


def run_study(folder: Path, config: StudyConfig, console: Console) -> None:
    """Computes what is not there yet, and writes results and page.

    Raises:
      ValueError: if the folder holds cells of other settings.
      OSError: if it cannot be written.
    """
    settings = {"sets": config.sets, "seed": config.seed, "time_limit_s": config.time_limit_s}
    cells: Cells = {}
    wanted = [
        (scenario, threshold) for threshold in config.thresholds for scenario in config.scenarios
    ]
    for cell in wanted:
        path = _path(folder, cell)
        if path.exists():
            cells[cell] = _read(path, settings)
    missing = [cell for cell in wanted if cell not in cells]
    console.print(
        f"{len(wanted)} cells of {config.sets:,} sets, {len(missing)} to go -> {folder}",
        soft_wrap=True,
        markup=False,
    )
    for cell, shares in _computed(missing, config):
        content = {"settings": settings, "shares": [asdict(share) for share in shares]}
        write_whole(_path(folder, cell), json.dumps(content, indent=1) + "\n")
        cells[cell] = shares
        console.print(f"{len(cells)} of {len(wanted)}: {_told(cell, shares)}", soft_wrap=True)
    ordered = {cell: cells[cell] for cell in wanted}
    for line in verdict(ordered):
        console.print(line, soft_wrap=True, markup=False)
    results, page = folder / "mapping.json", folder / "mapping.html"
    write_whole(results, _json(ordered, settings))
    write_whole(page, study_page(ordered, settings).html())
    console.print(f"-> {results}, {page}", soft_wrap=True, markup=False)


def _computed(cells: list[Cell], config: StudyConfig) -> Iterator[tuple[Cell, list[Share]]]:
    compute = partial(_cell, config.sets, config.seed, config.time_limit_s)
    if config.workers == 1 or len(cells) < 2:
        yield from map(compute, cells)
        return
    with get_context("spawn").Pool(config.workers, _leave_interruption_to_us) as pool:
        yield from pool.imap_unordered(compute, cells)


def _cell(sets: int, seed: int, time_limit_s: float, cell: Cell) -> tuple[Cell, list[Share]]:
    scenario, threshold = cell
    return cell, schedulability(
        SCENARIOS[scenario], threshold, count=sets, seed=seed, time_limit_s=time_limit_s
    )


def _leave_interruption_to_us() -> None:
    """Ctrl-C reaches all processes; the one that asked ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _path(folder: Path, cell: Cell) -> Path:
    return folder / "cells" / f"{cell[0]}-{cell[1]}.json"


def _read(path: Path, settings: dict[str, Any]) -> list[Share]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        theirs = content["settings"]
        shares = [Share(**share) for share in content["shares"]]
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is no cell of a study: {error}; remove it") from error
    if theirs != settings:
        raise ValueError(
            f"{path} was computed with {theirs}, this study has {settings}; give another folder"
        )
    return shares


def _told(cell: Cell, shares: list[Share]) -> str:
    parts = ", ".join(f"{one.column} {one.feasible / one.sets:.1%}" for one in shares)
    return f"{cell[0]} at {cell[1]}: {parts}"


def _json(cells: Cells, settings: dict[str, Any]) -> str:
    rows = [
        {"scenario": scenario, "threshold": threshold, **asdict(share)}
        for (scenario, threshold), shares in cells.items()
        for share in shares
    ]
    return json.dumps({"settings": settings, "rows": rows}, indent=1) + "\n"
