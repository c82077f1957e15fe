"""One description of an experiment: its steps, and the tables, figures and words made of its rows.

A table names the keys that it takes from each row; the terminal and the page lay out the same table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from benchmarks.config import BenchConfig
from benchmarks.results import Row, grouped
from benchmarks.steps import ExperimentStep
from edgenas_core.page.parts import Figure

Rows = Callable[[list[Row]], Sequence[Row]]
Text = str | Callable[[list[Row]], str]
"""A text with fields of the first row, as `{network}, batch {batch}`; or a function of the rows."""


def with_spread(row: Row) -> str:
    """Format the median and half of the interquartile range; one round has no range."""
    if not row.get("ms"):
        return "failed"
    if len(row.get("samples_ms", ())) == 1:
        return f"{row['ms']:.2f}"
    return f"{row['ms']:.2f} \u00b1{50 * (row['high_ms'] - row['low_ms']) / row['ms']:.0f}%"


def _cell(row: Row, key: str, form: str) -> str:
    value = row.get(key)
    if key == "ms" and not form:
        return with_spread(row)
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "NO"
    if form == "MB":
        return f"{value / 1e6:.1f}"
    return format(value, form or (".2f" if isinstance(value, float) else ""))


@final
@dataclass(frozen=True)
class Shown:
    """A table of texts."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    names: int
    """Number of columns at the left that are names; the others are numbers."""
    note: str = ""


@final
@dataclass(frozen=True)
class ResultTable:
    """A table of the rows that it takes; one for each group of them, and none without rows."""

    title: Text
    columns: str
    """Keys of a row, each with a format if it needs one, as `error:+.1%`; `MB` formats bytes, and a
    plain `ms` is a median with its spread."""
    rows: Rows = list
    by: Sequence[str] = ()
    note: str = ""
    """An explanation of the columns."""

    def shown(self, rows: list[Row]) -> Iterator[Shown]:
        """The tables."""
        columns = [word.partition(":")[::2] for word in self.columns.split()]
        for group in _groups(self.rows(rows), self.by):
            is_name = [isinstance(group[0].get(key), str) for key, _ in columns]
            yield Shown(
                _text(self.title, group),
                [key.replace("_", " ") for key, _ in columns],
                [[_cell(row, key, form) for key, form in columns] for row in group],
                [*is_name, False].index(False),
                self.note,
            )


@final
@dataclass(frozen=True)
class Chart:
    """A figure of the rows that it takes; one for each group of them, and none without rows."""

    title: Text
    traces: Callable[[list[Row]], Sequence[Mapping[str, Any]]]
    layout: Mapping[str, Any]
    rows: Rows = list
    by: Sequence[str] = ()
    caption: Text = ""

    def figures(self, rows: list[Row]) -> Iterator[Figure]:
        """The figures."""
        for group in _groups(self.rows(rows), self.by):
            if traces := [*self.traces(group)]:
                title, caption = _text(self.title, group), _text(self.caption, group)
                yield Figure(title, traces, self.layout, caption)


def part(name: str, key: str = "part") -> Rows:
    """The rows of a part of an experiment, without those that failed."""
    return lambda rows: [row for row in rows if row.get(key) == name and "error" not in row]


def having(*keys: str) -> Rows:
    """The rows that have a value of each key."""
    return lambda rows: [row for row in rows if all(row.get(key) is not None for key in keys)]


def _groups(rows: Sequence[Row], by: Sequence[str]) -> Iterator[list[Row]]:
    if rows:
        yield from grouped(rows, *by).values()


def _text(wanted: Text, rows: list[Row]) -> str:
    return wanted(rows) if callable(wanted) else wanted.format_map(rows[0])


def _nothing(_: list[Row]) -> list[Any]:
    return []


def _measured(_: list[Row]) -> str:
    return ""


@final
@dataclass(frozen=True)
class PaperExperiment:
    """What is measured, and what is shown of it."""

    name: str
    title: str
    steps: Callable[[BenchConfig], list[ExperimentStep]]
    tables: Sequence[ResultTable]
    charts: Sequence[Chart] = ()
    sentences: Callable[[list[Row]], list[str]] = _nothing
    """The answer in words, one line each."""
    stands_in_for_gpu: bool = False
    """True if a CPU core replaces the GPU on a machine without one."""
    simulated: Callable[[list[Row]], str] = _measured
    """A note for rows that were simulated; an empty text for rows that were measured."""

    def shown(self, rows: list[Row]) -> list[Shown]:
        """All tables."""
        return [one for table in self.tables for one in table.shown(rows)]

    def figures(self, rows: list[Row]) -> list[Figure]:
        """All figures."""
        return [figure for chart in self.charts for figure in chart.figures(rows)]

    def stand_in(self, settings: Mapping[str, Any]) -> str:
        """Note on the core that replaced the GPU, or an empty text if there was a GPU."""
        if not self.stands_in_for_gpu or settings.get("device") != "cpu":
            return ""
        return (
            "No GPU was used: GPU means one core here, and CPU another core slowed down "
            f"{settings.get('throttle', 1):g} times."
        )

    def flagged(self, rows: list[Row]) -> tuple[int, int]:
        """Number of flagged rows, and number of measured rows."""
        timed = [] if self.simulated(rows) else [row for row in rows if not row.get("simulated")]
        return sum(bool(row.get("flagged")) for row in timed), len(timed)
