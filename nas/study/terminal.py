"""The study's main figures as a table on the terminal, and its sentences."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table

from nas.study.config import Axis
from nas.study.plan import Cell
from nas.study.results import Results
from nas.study.statistics import Interval, no_intervals, with_intervals

SHOWN = {
    Axis.reward: {
        "gap": "gap (points)",
        "settled": "samples until within T",
        "feasible_share": "share within T",
    },
    Axis.controller: {
        "gap_at_200_queries": "gap at 200 queries",
        "gap": "gap (points)",
        "queries_to_optimum": "queries to optimum",
    },
}
"""Measures on the terminal, by what is compared, with the titles that fit there."""


def text_of(interval: Interval | None, *, digits: int | None = None) -> str:
    """An interval for readers: `3.1 [2.9, 3.4]`, with `never` for the infinite."""
    if interval is None:
        return "unknown"
    middle = number_text(interval.middle, digits)
    low, high = (number_text(x, digits) for x in interval.bounds or [interval.middle] * 2)
    return middle if low == high == middle else f"{middle} [{low}, {high}]"


def number_text(value: float, digits: int | None = None) -> str:
    """A number with so many digits behind the point, or as many as its size asks for."""
    if math.isinf(value):
        return "never"
    if digits is None:
        whole = value == round(value) and abs(value) >= 1
        digits = 0 if whole or abs(value) >= 100 else 2 if abs(value) >= 1 else 3
    return f"{value:,.{digits}f}"


def print_results(console: Console, results: Results, sentences: Sequence[str]) -> None:
    """Medians with their intervals, a table a problem, and what follows from them."""
    config = results.config
    shown = {
        name: title
        for name, title in SHOWN[config.compare].items()
        if name in {measure.name for measure in results.measures}
    }
    cells = [
        cell
        for cell in results.values
        if not cell.settings and (cell.device, cell.limit_ms) not in results.on_boards
    ]
    if told := no_intervals(len(results.seeds)):
        console.print(f"warning: {told}", soft_wrap=True)
    if cells:
        _print_cells(console, results, cells, shown)
    grid = sum(bool(cell.settings) for cell in results.values)
    if grid:
        console.print(f"and {grid} cells of the grid, in the files")
    for sentence in sentences:
        console.print(sentence, soft_wrap=True)


def _print_cells(
    console: Console, results: Results, cells: Sequence[Cell], shown: Mapping[str, str]
) -> None:
    console.print(
        f"medians over {len(results.seeds)} seeds{with_intervals(len(results.seeds))}; gaps are points below "
        f"the {results.optimum} within T after {results.config.budget:,} samples",
        soft_wrap=True,
    )
    for device, limit_ms in dict.fromkeys((cell.device, cell.limit_ms) for cell in cells):
        table = Table(box=None, header_style="bold", pad_edge=False)
        table.add_column("")
        for title in shown.values():
            table.add_column(title, justify="right", no_wrap=True)
        for cell in cells:
            if (cell.device, cell.limit_ms) == (device, limit_ms):
                medians = results.medians[cell]
                table.add_row(results.name(cell), *(text_of(medians[measure]) for measure in shown))
        console.print(f"[bold]{device}, T = {limit_ms:g} ms", soft_wrap=True)
        console.print(table)
