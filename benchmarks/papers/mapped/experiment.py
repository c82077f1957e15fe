"""Tables and sentences about timetables that ran."""

from __future__ import annotations

from benchmarks.papers.experiment import (
    Column,
    Experiment,
    Table,
    column,
    columns,
    having,
    names,
    number,
    percent,
    spread,
    text,
)
from benchmarks.papers.mapped.needed_margin import needed_margin
from benchmarks.papers.results import Row

_timetables, _margins, _networks = having("timetable"), having("margin"), having("network")


def _late(row: Row) -> str:
    return f"{row['late']} of {row['frames']}" if row.get("frames") else ""


def _span(begin: str, end: str) -> Column:
    head = begin.split("_", maxsplit=1)[0].replace("start", "measured")
    return Column(head, lambda row: f"{number(row.get(begin))} to {number(row.get(end))}")


def sentences(rows: list[Row]) -> list[str]:
    """Summarise: whether the mapping held, and the margin to plan with."""
    margins = _margins(rows)
    lines = []
    for name in dict.fromkeys(row["of"] for row in margins if row["frames"]):
        tried = [row for row in margins if row["of"] == name]
        percents = ", ".join(f"{100 * row['margin']:g}" for row in tried)
        late = f"{tried[0]['late']} of {tried[0]['frames']} frames were late"
        lines.append(f"mapped with a margin of {percents} %: {late}")
    if margins and not any(row["holds"] for row in margins):
        lines.append("every margin tried has late frames or no mapping")
    if needed := needed_margin(rows):
        in_time = "no frame was late because this frame has room for that"
        why = in_time if needed.has_held else "it has the shortest frame, and no mapping held"
        lines.append(
            f"plan with a margin of {100 * needed.margin:g} %: the worst frame of {needed.timetable} "
            f"exceeded its plan by that much; {why}"
        )
    return lines


MAPPED = Experiment(
    "mapped",
    "A mapping run on this machine",
    lambda _: [],  # the command of its own measures it
    tables=(
        Table(
            "A frame of {frame_ms:g} ms: time from start to last end, ms",
            (
                *(*names("timetable"), *columns(number, planned_ms="planned"), spread("median")),
                *columns(number, p99_ms="p99", worst_ms="worst"),
                column("late", _late, text),
                *columns(
                    percent,
                    needed_margin="needed margin",
                    needed_margin_median="needed by the median",
                    against_serial="against serial",
                ),
            ),
            _timetables,
        ),
        Table(
            "{of}: planned and median times, ms",
            (
                *names("network", configuration="as", place="on"),
                _span("planned_start_ms", "planned_end_ms"),
                _span("start_ms", "end_ms"),
                *columns(number, worst_end_ms="worst end", alone_ms="alone", took_ms="took"),
                *columns(percent, slower="slower"),
                column(
                    "difference from fp32",
                    "difference",
                    lambda value: "" if value is None else f"{100 * value:.2g}%",
                ),
            ),
            _networks,
            by=("of",),
        ),
        Table(
            "Does the mapping hold?",
            (
                Column("margin", lambda row: f"{100 * row['margin']:g} %", is_name=True),
                *names(answer="mapper"),
                Column("timetable", lambda row: row["of"] or "none", is_name=True),
                column("late", _late, text),
            ),
            _margins,
        ),
    ),
    sentences=sentences,
)
