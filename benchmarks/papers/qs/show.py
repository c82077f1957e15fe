"""Tables and figures of the comparison of dispatch modes."""

from __future__ import annotations

from benchmarks.papers.dispatch.modes import DispatchMode
from benchmarks.papers.qs.measure import compared
from benchmarks.papers.results import Row, grouped
from benchmarks.papers.schedule_metrics import overlap
from benchmarks.papers.table_view import (
    SHARING,
    TableView,
    number,
    percent,
    sharing_cells,
    with_spread,
)
from benchmarks.papers.view import View
from common.page.chart import axes, line
from common.page.document import KeyFigure
from common.page.parts import Figure

_WAYS = {
    DispatchMode.QUEUE_STREAM: "Q-S",
    DispatchMode.MULTI_CONTEXT: "M-C",
    DispatchMode.SINGLE_CONTEXT: "S-C",
    DispatchMode.SINGLE_ISSUER: "1 issuer",
    DispatchMode.FORK_JOIN: "fork-join",
    DispatchMode.SERIAL: "serial",
}
_AGAINST = (
    *("against_mc", "published_mc", "against_sc", "published_sc"),
    *("against_single_issuer", "against_fork_join", "against_serial"),
)


def _tables(rows: list[Row]) -> list[TableView]:
    against = [
        [
            row["workload"],
            row["mode"],
            f"{row['qs_ms']:.2f}",
            *(percent(row[name]) for name in _AGAINST),
        ]
        for row in compared(rows)
    ]
    header = ["workload", "mode", "Q-S ms", "to M-C", "publ.", "to S-C", "publ."]
    header += ["to 1 issuer", "to fork-join", "to serial"]
    by_way: dict[tuple[str, ...], Row] = {
        (row["workload"], row["mode"], row["way"]): row for row in rows
    }
    times = [
        [*group, *(_cell(by_way.get((*group, way.value))) for way in _WAYS), _bound(own)]
        for group, own in grouped(rows, "workload", "mode").items()
    ]
    shared = [
        [
            *(row["workload"], row["mode"], _WAYS[DispatchMode(row["way"])]),
            number(_overlap(row, by_way)),
            *sharing_cells(row),
        ]
        for row in rows
        if "stp" in row
    ]
    shown = [
        TableView("Q-S against the others", header, against, 2),
        TableView(
            "Makespan in ms: median, half the distance of the quartiles",
            ["workload", "mode", *_WAYS.values(), "least by times alone"],
            times,
            2,
        ),
        TableView(
            "How the device is shared; overlap to one network after another",
            ["workload", "mode", "way", "overlap", *SHARING],
            shared,
            3,
        ),
    ]
    return [one for one in shown if one.rows]


def _overlap(row: Row, by_way: dict[tuple[str, ...], Row]) -> float | None:
    serial = by_way.get((row["workload"], row["mode"], DispatchMode.SERIAL.value), {})
    if not (serial.get("ms") and row.get("ms") and row.get("bound_ms")):
        return None
    return overlap(serial["ms"], row["ms"], row["bound_ms"])


def _cell(row: Row | None) -> str:
    return "" if row is None else with_spread(row)


def _bound(rows: list[Row]) -> str:
    bounds = [row["bound_ms"] for row in rows if row.get("bound_ms")]
    return f"{bounds[0]:.2f}" if bounds else ""


def _figures(rows: list[Row]) -> list[Figure]:
    """Figure 5-4 of the queue-stream source: utilisation of the device over time, for each mode."""
    figures = []
    note = (
        "One run with each job timed. A stream counts from the first kernel of a job to its last, "
        "and so while they wait for multiprocessors."
    )
    for (workload, mode), own in grouped(rows, "workload", "mode").items():
        data = []
        for row in own:
            if busy := row.get("busy"):
                streams = busy["streams_busy"]
                times_ms = [i * busy["bin_ms"] for i in range(len(streams))]
                data.append(line(row["way"].replace("_", " "), times_ms, streams, shape="hv"))
        if data:
            layout = axes("time in ms", "streams with a job under way")
            title = f"Streams busy over time: {workload}, {mode}"
            figures.append(Figure(title, data, layout, note))
    return figures


def _key_figures(rows: list[Row]) -> list[KeyFigure]:
    captured = [row for row in compared(rows) if row["mode"] == "captured"]
    gains = [row["against_mc"] for row in captured if row["against_mc"] is not None]
    if not gains:
        return []
    return [
        KeyFigure("captured Q-S to M-C, least gain", percent(max(gains))),
        KeyFigure("captured Q-S to M-C, largest gain", percent(min(gains))),
    ]


QS = View("Many networks on one device", _tables, _figures, _key_figures)
