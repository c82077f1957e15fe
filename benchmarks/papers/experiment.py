"""One description of an experiment: its steps, and the tables, figures and words made of its rows.

A table or figure is declared once, with the columns that it takes from each row; the terminal and the
page lay out the same declaration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from benchmarks.papers.config import BenchConfig
from benchmarks.papers.results import Row, grouped
from benchmarks.papers.steps import Step
from common.page.parts import Figure

Values = Callable[[Row], Any]
Rows = Callable[[list[Row]], Sequence[Row]]
Text = str | Callable[[list[Row]], str]
"""A text with fields of the first row, as `{network}, batch {batch}`; or a function of the rows."""


def text(value: object) -> str:
    """Format a name or a whole number; an empty text for None."""
    return "" if value is None else str(value)


def percent(value: float | None) -> str:
    """Format a relative difference; an empty text for None."""
    return "" if value is None else f"{100 * value:+.1f}%"


def share(value: float | None) -> str:
    """Format in percent; an empty text for None."""
    return "" if value is None else f"{100 * value:.1f}%"


def explained(r2: float | None) -> str:
    """Format R2 in percent; an empty text for None. Values below -100 % are not distinguished."""
    return "below -100%" if r2 is not None and r2 < -1 else share(r2)


def decimals(form: str) -> Callable[[float | None], str]:
    """Format as `form` says, such as `.2f`; an empty text for None."""
    return lambda value: "" if value is None else format(value, form)


number = decimals(".2f")


def megabytes(nbytes: float | None) -> str:
    """Format in units of a million bytes; an empty text for None."""
    return "" if nbytes is None else f"{nbytes / 1e6:.1f}"


def yes_or_no(value: bool | None) -> str:
    """Format what must be true."""
    return "" if value is None else "yes" if value else "NO"


def with_spread(row: Row) -> str:
    """Format the median and half of the interquartile range; one round has no range."""
    if not row.get("ms"):
        return "failed"
    if len(row.get("samples_ms", ())) == 1:
        return f"{row['ms']:.2f}"
    return f"{row['ms']:.2f} \u00b1{50 * (row['high_ms'] - row['low_ms']) / row['ms']:.0f}%"


@final
@dataclass(frozen=True)
class Column:
    """A column of a table: what it takes from each row, as text."""

    head: str
    cell: Callable[[Row], str]
    is_name: bool = False


def names(*keys: str, **heads: str) -> tuple[Column, ...]:
    """Columns of names, which every row has, under the keys or other heads."""
    every = {**{key: key for key in keys}, **heads}
    return tuple(Column(head, _name(key), is_name=True) for key, head in every.items())


def _name(key: str) -> Callable[[Row], str]:
    return lambda row: text(row[key])


def column(head: str, value: str | Values, form: Callable[[Any], str] = number) -> Column:
    """A column of numbers: the value of a key, or of a function of the row."""
    return Column(head, _cell(value, form))


def columns(form: Callable[[Any], str], **heads: str) -> tuple[Column, ...]:
    """Columns of numbers by key, each with its head."""
    return tuple(column(head, key, form) for key, head in heads.items())


def spread(head: str) -> Column:
    """A column of medians with their spread."""
    return Column(head, with_spread)


def _cell(value: str | Values, form: Callable[[Any], str]) -> Callable[[Row], str]:
    read = value if callable(value) else lambda row: row.get(value)
    return lambda row: form(read(row))


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
class Table:
    """A table of the rows that it takes; one for each group of them, and none without rows."""

    title: Text
    columns: Sequence[Column] | Callable[[list[Row]], Sequence[Column]]
    rows: Rows = list
    by: Sequence[str] = ()
    note: str = ""
    """An explanation of the columns."""

    def shown(self, rows: list[Row]) -> Iterator[Shown]:
        """The tables."""
        for group in _groups(self.rows(rows), self.by):
            made = self.columns(group) if callable(self.columns) else self.columns
            yield Shown(
                _text(self.title, group),
                [one.head for one in made],
                [[one.cell(row) for one in made] for row in group],
                sum(one.is_name for one in made),
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
class Experiment:
    """What is measured, and what is shown of it."""

    name: str
    title: str
    steps: Callable[[BenchConfig], list[Step]]
    tables: Sequence[Table]
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
