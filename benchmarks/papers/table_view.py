"""Tables for the terminal and the page, and the formatting of their entries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from benchmarks.papers.results import Row


@final
@dataclass(frozen=True)
class TableView:
    """A table of formatted entries."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    names: int
    """Number of columns at the left that are names; the others are numbers."""
    note: str = ""
    """An explanation of the columns."""


def notes(tables: Sequence[TableView]) -> list[str]:
    """The notes of all tables, without repetitions."""
    return [*dict.fromkeys(one.note for one in tables if one.note)]


def percent(value: float | None) -> str:
    """Format a relative difference; an empty text for None."""
    return "" if value is None else f"{100 * value:+.1f}%"


def with_spread(row: Row) -> str:
    """Format the median and half of the interquartile range; one round has no range."""
    if not row.get("ms"):
        return "failed"
    if len(row.get("samples_ms", ())) == 1:
        return f"{row['ms']:.2f}"
    return f"{row['ms']:.2f} \u00b1{50 * (row['high_ms'] - row['low_ms']) / row['ms']:.0f}%"


SHARING = ("throughput", "mean slowdown", "fairness", "first to last ms")
"""STP, ANTT, Jain's index, and the time between the first and the last end."""


def sharing_cells(row: Row) -> list[str]:
    """Format these measures for a run in which each job was timed."""
    return [number(row.get(name)) for name in ("stp", "antt", "fairness", "ends_ms")]


def number(value: float | None) -> str:
    """Format with two decimals; an empty text for None."""
    return "" if value is None else f"{value:.2f}"


def share(value: float | None) -> str:
    """Format in percent; an empty text for None."""
    return "" if value is None else f"{100 * value:.1f}%"


def explained(r2: float | None) -> str:
    """Format R2 in percent; an empty text for None. Values below -100 % are not distinguished."""
    return "below -100%" if r2 is not None and r2 < -1 else share(r2)


def megabytes(nbytes: float | None) -> str:
    """Format in units of a million bytes; an empty text for None."""
    return "" if nbytes is None else f"{nbytes / 1e6:.1f}"
