"""A table as it is shown: in a terminal and on a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from runtime.page.results import Row


@final
@dataclass(frozen=True)
class TableView:
    """A table of texts."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    names: int
    """Columns at the left that are names; the rest are numbers."""
    note: str = ""
    """What a reader must know of a column."""


def notes(tables: Sequence[TableView]) -> list[str]:
    """Of all tables, each once."""
    return [*dict.fromkeys(one.note for one in tables if one.note)]


def percent(value: float | None) -> str:
    """A relative difference; nothing where there is none."""
    return "" if value is None else f"{100 * value:+.1f}%"


def with_spread(row: Row) -> str:
    """Median, and half of what lies between the quartiles."""
    if not row.get("ms"):
        return "failed"
    return f"{row['ms']:.2f} \u00b1{50 * (row['high_ms'] - row['low_ms']) / row['ms']:.0f}%"


SHARING = ("throughput", "mean slowdown", "fairness", "first to last ms")
"""STP, ANTT, Jain's index, and how far apart the networks end."""


def sharing_cells(row: Row) -> list[str]:
    """Those of a run in which each job was timed."""
    return [number(row.get(name)) for name in ("stp", "antt", "fairness", "ends_ms")]


def number(value: float | None) -> str:
    """With two decimals; nothing where there is none."""
    return "" if value is None else f"{value:.2f}"


def share(value: float | None) -> str:
    """In percent; nothing where there is none."""
    return "" if value is None else f"{100 * value:.1f}%"


def explained(r2: float | None) -> str:
    """R2 in percent; nothing where there is none. How far it is below -100 % says nothing."""
    return "below -100%" if r2 is not None and r2 < -1 else share(r2)


def megabytes(nbytes: float | None) -> str:
    """Of a million bytes; nothing where there are none."""
    return "" if nbytes is None else f"{nbytes / 1e6:.1f}"
