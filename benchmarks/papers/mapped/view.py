"""Tables, charts and sentences about timetables that ran."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.papers.mapped.needed_margin import needed_margin
from benchmarks.papers.results import Row
from benchmarks.papers.table_view import TableView, number, percent, with_spread
from benchmarks.papers.view import View
from common.page.chart import axes, bars, line
from common.page.document import KeyFigure, Tone
from common.page.markup import chart_text
from common.page.palette import BLUE, GREY, SERIES
from common.page.parts import Figure


def _tables(rows: list[Row]) -> list[TableView]:
    ran = [row for row in rows if "timetable" in row]
    margins = [row for row in rows if "margin" in row]
    frame_ms = ran[0]["frame_ms"] if ran else 0.0
    shown = [
        TableView(
            f"A frame of {frame_ms:g} ms: time from start to last end, ms",
            [
                *("timetable", "planned", "median", "p99", "worst", "late"),
                *("needed margin", "needed by the median", "against serial"),
            ],
            [_ran(row) for row in ran],
            1,
        )
    ]
    for one in ran:
        own = [row for row in rows if row.get("of") == one["timetable"] and "network" in row]
        shown.append(
            TableView(
                f"{one['timetable']}: planned and median times, ms",
                [
                    *("network", "as", "on", "planned", "measured", "worst end"),
                    *("alone", "took", "slower", "difference from fp32"),
                ],
                [_network(row) for row in own],
                3,
            )
        )
    if margins:
        shown.append(
            TableView(
                "Does the mapping hold?",
                ["margin", "mapper", "timetable", "late"],
                [_margin(row) for row in margins],
                3,
            )
        )
    return shown


def _ran(row: Row) -> list[str]:
    late = f"{row['late']} of {row['frames']}" if row.get("frames") else ""
    return [
        row["timetable"],
        number(row.get("planned_ms")),
        with_spread(row),
        *(number(row.get(name)) for name in ("p99_ms", "worst_ms")),
        late,
        *(percent(row.get(f"needed_margin{of}")) for of in ("", "_median")),
        percent(row.get("against_serial")),
    ]


def _network(row: Row) -> list[str]:
    difference = row.get("difference")
    return [
        row["network"],
        row["configuration"],
        row["place"],
        f"{number(row['planned_start_ms'])} to {number(row['planned_end_ms'])}",
        f"{number(row.get('start_ms'))} to {number(row.get('end_ms'))}",
        *(number(row.get(name)) for name in ("worst_end_ms", "alone_ms", "took_ms")),
        percent(row.get("slower")),
        "" if difference is None else f"{100 * difference:.2g}%",
    ]


def _margin(row: Row) -> list[str]:
    late = f"{row['late']} of {row['frames']}" if row["frames"] else ""
    return [f"{100 * row['margin']:g} %", row["answer"], row["of"] or "none", late]


def sentences(rows: list[Row]) -> list[str]:
    """Summarise: whether the mapping held, the margin to plan with, the largest slowdown."""
    found = []
    margins = [row for row in rows if "margin" in row]
    for name in dict.fromkeys(row["of"] for row in margins if row["frames"]):
        own = [row for row in margins if row["of"] == name]
        percents = ", ".join(f"{100 * row['margin']:g}" for row in own)
        late = f"{own[0]['late']} of {own[0]['frames']} frames were late"
        found.append(f"mapped with a margin of {percents} %: {late}")
    if margins and not any(row["holds"] for row in margins):
        found.append("every margin tried has late frames or no mapping")
    needed = needed_margin(rows)
    if needed is not None:
        in_time = "no frame was late because this frame has room for that"
        why = in_time if needed.has_held else "it has the shortest frame, and no mapping held"
        found.append(
            f"plan with a margin of {100 * needed.margin:g} %: the worst frame of {needed.timetable} "
            f"exceeded its plan by that much; {why}"
        )
    slower = [row for row in rows if "slower" in row]
    apart = [row for row in slower if row["place"] != "anywhere"]
    at_once = [row for row in slower if row["place"] == "anywhere"]
    return [
        *found,
        *_slowest(apart, "on units of its own", rows),
        *_slowest(at_once, "started at once", rows),
    ]


def _slowest(some: Sequence[Row], which: str, rows: list[Row]) -> list[str]:
    """Return a sentence about the network with the largest slowdown, if any ran."""
    most = max(some, key=lambda row: float(row["slower"]), default=None)
    if most is None:
        return []
    beside = ", beside others," if _is_beside(most, rows) else ""
    took = (
        f"{most['network']} as {most['configuration']} took {percent(most['slower'])} against alone"
    )
    return [f"largest slowdown {which}: in its frame{beside} {took} ({most['of']})"]


def _is_beside(one: Row, rows: list[Row]) -> bool:
    """Return whether the plan runs another network at the same time."""
    return any(
        row["planned_start_ms"] < one["planned_end_ms"]
        and one["planned_start_ms"] < row["planned_end_ms"]
        for row in rows
        if "network" in row and row["of"] == one["of"] and row is not one
    )


def _figures(rows: list[Row]) -> list[Figure]:
    ran = [row for row in rows if row.get("samples_ms")]
    return [*_lengths(ran), *(_plan(one, rows) for one in ran)]


def _plan(one: Row, rows: list[Row]) -> Figure:
    """Chart the planned and the measured time of each network in the frame."""
    own = [row for row in rows if row.get("of") == one["timetable"] and "network" in row]
    labels = [
        f"{i + 1} {chart_text(row['network'])}, {chart_text(row['place'])}"
        for i, row in enumerate(own)
    ]
    data = [
        bars(name, [row[end] - row[begin] for row in own], labels, color=colour)
        | {"orientation": "h", "base": [row[begin] for row in own]}
        for name, colour, begin, end in (
            ("planned", GREY, "planned_start_ms", "planned_end_ms"),
            ("measured, median", BLUE, "start_ms", "end_ms"),
        )
    ]
    reverse = {"autorange": "reversed", "automargin": True}
    layout = axes("ms of the frame", barmode="group", yaxis=reverse)
    height = 140 + 34 * len(own)
    return Figure(f"Planned and measured: {one['timetable']}", data, layout, height=height)


def _lengths(ran: list[Row]) -> list[Figure]:
    """Chart the cumulative distribution of frame times."""
    if not ran:
        return []
    data = []
    for i, row in enumerate(ran):
        ordered = sorted(row["samples_ms"])
        shares = [100 * (k + 1) / len(ordered) for k in range(len(ordered))]
        colour = SERIES[i % len(SERIES)]
        data.append(line(row["timetable"], ordered, shares, shape="hv", color=colour))
    frame_ms = ran[0]["frame_ms"]
    end = {"type": "line", "x0": frame_ms, "x1": frame_ms, "y0": 0, "y1": 100}
    shapes = [{**end, "line": {"dash": "dot"}}]
    layout = axes("start to last end, ms", "frames, %", from_0="x", shapes=shapes)
    caption = f"Dotted: the end of the frame, {frame_ms:g} ms."
    return [Figure("Cumulative distribution of frame times", data, layout, caption)]


def _key_figures(rows: list[Row]) -> list[KeyFigure]:
    found = []
    margins = [row for row in rows if "margin" in row]
    if margins:
        found.append(_to_plan_with(rows, margins))
    found += [
        KeyFigure(
            row["timetable"],
            f"{row['ms']:.2f} ms",
            f"{percent(row['against_serial'])} against serial; "
            f"{row['late']} of {row['frames']} late",
        )
        for row in rows
        if row.get("ways") and "against_serial" in row and "serial" not in row["ways"]
    ]
    return found


def _to_plan_with(rows: list[Row], margins: list[Row]) -> KeyFigure:
    """Show the needed margin, not the least that held, whose frames may have had spare room."""
    needed = needed_margin(rows)
    tried = ", ".join(f"{100 * row['margin']:g}" for row in margins)
    held = f"every mapping had late frames; tried {tried} %"
    if needed is None:
        return KeyFigure("Margin to plan with", "unknown", held, Tone.bad)
    needs = f"worst frame of {needed.timetable} against its plan"
    if needed.has_held:
        held = f"the least margin without a late frame; tried {tried} %"
    return KeyFigure(
        "Margin to plan with",
        f"{100 * needed.margin:g} %",
        f"{needs}; {held}",
        Tone.good if needed.has_held else Tone.bad,
    )


MAPPED = View(
    "A mapping run on this machine",
    _tables,
    _figures,
    _key_figures,
    sentences,
)
