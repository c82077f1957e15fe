"""Tables, charts and sentences about timetables that ran."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.papers.experiment import (
    Chart,
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
from common.page.chart import axes, bars, line
from common.page.document import KeyFigure, Tone
from common.page.markup import chart_text
from common.page.palette import BLUE, GREY, SERIES

_timetables, _margins, _networks = having("timetable"), having("margin"), having("network")


def _late(row: Row) -> str:
    return f"{row['late']} of {row['frames']}" if row.get("frames") else ""


def _span(begin: str, end: str) -> Column:
    head = begin.split("_", maxsplit=1)[0].replace("start", "measured")
    return Column(head, lambda row: f"{number(row.get(begin))} to {number(row.get(end))}")


def sentences(rows: list[Row]) -> list[str]:
    """Summarise: whether the mapping held, the margin to plan with, the largest slowdown."""
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
    slower = having("slower")(rows)
    apart = [row for row in slower if row["place"] != "anywhere"]
    at_once = [row for row in slower if row["place"] == "anywhere"]
    return [
        *lines,
        *_slowest(apart, "on units of its own", rows),
        *_slowest(at_once, "started at once", rows),
    ]


def _slowest(some: Sequence[Row], which: str, rows: list[Row]) -> Iterator[str]:
    """A sentence about the network with the largest slowdown, if any ran."""
    if some:
        most = max(some, key=lambda row: float(row["slower"]))
        beside = ", beside others," if _is_beside(most, rows) else ""
        yield (
            f"largest slowdown {which}: in its frame{beside} {most['network']} as "
            f"{most['configuration']} took {percent(most['slower'])} against alone ({most['of']})"
        )


def _is_beside(one: Row, rows: list[Row]) -> bool:
    """Return whether the plan runs another network at the same time."""
    return any(
        row["planned_start_ms"] < one["planned_end_ms"]
        and one["planned_start_ms"] < row["planned_end_ms"]
        for row in _networks(rows)
        if row["of"] == one["of"] and row is not one
    )


def _lengths(rows: list[Row]) -> list[dict[str, Any]]:
    """The cumulative distribution of frame times, and the end of the frame."""
    data = []
    for row, colour in zip(rows, SERIES * len(rows), strict=False):
        ordered = sorted(row["samples_ms"])
        shares = [100 * (k + 1) / len(ordered) for k in range(len(ordered))]
        data.append(line(row["timetable"], ordered, shares, shape="hv", color=colour))
    end_ms = [rows[0]["frame_ms"]] * 2
    return [*data, line("end of the frame", end_ms, [0, 100], dash="dot", color=GREY)]


def _plan(rows: list[Row]) -> list[dict[str, Any]]:
    """The planned and the measured time of each network in the frame."""
    labels = [
        f"{i + 1} {chart_text(row['network'])}, {chart_text(row['place'])}"
        for i, row in enumerate(rows)
    ]
    return [
        bars(name, [row[end] - row[begin] for row in rows], labels, color=colour)
        | {"orientation": "h", "base": [row[begin] for row in rows]}
        for name, colour, begin, end in (
            ("planned", GREY, "planned_start_ms", "planned_end_ms"),
            ("measured, median", BLUE, "start_ms", "end_ms"),
        )
    ]


def _key_figures(rows: list[Row]) -> list[KeyFigure]:
    margins = _margins(rows)
    return [
        *([_to_plan_with(rows, margins)] if margins else []),
        *(
            KeyFigure(
                row["timetable"],
                f"{row['ms']:.2f} ms",
                f"{percent(row['against_serial'])} against serial; {_late(row)} late",
            )
            for row in having("ways", "against_serial")(rows)
            if "serial" not in row["ways"]
        ),
    ]


def _to_plan_with(rows: list[Row], margins: Sequence[Row]) -> KeyFigure:
    """Show the needed margin, not the least that held, whose frames may have had spare room."""
    needed = needed_margin(rows)
    tried = ", ".join(f"{100 * row['margin']:g}" for row in margins)
    held = f"every mapping had late frames; tried {tried} %"
    if needed is None:
        return KeyFigure("Margin to plan with", "unknown", held, Tone.bad)
    if needed.has_held:
        held = f"the least margin without a late frame; tried {tried} %"
    return KeyFigure(
        "Margin to plan with",
        f"{100 * needed.margin:g} %",
        f"worst frame of {needed.timetable} against its plan; {held}",
        Tone.good if needed.has_held else Tone.bad,
    )


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
    charts=(
        Chart(
            "Cumulative distribution of frame times",
            _lengths,
            axes("start to last end, ms", "frames, %", from_0="x"),
            having("samples_ms", "timetable"),
            caption="Dotted: the end of the frame, {frame_ms:g} ms.",
        ),
        Chart(
            "Planned and measured: {of}",
            _plan,
            axes(
                "ms of the frame",
                barmode="group",
                yaxis={"autorange": "reversed", "automargin": True},
            ),
            having("network", "end_ms"),
            by=("of",),
        ),
    ),
    key_figures=_key_figures,
    sentences=sentences,
)
