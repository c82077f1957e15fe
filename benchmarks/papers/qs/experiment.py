"""Tables and figures of the comparison of dispatch modes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.papers.dispatch.modes import DispatchMode
from benchmarks.papers.experiment import (
    Chart,
    Column,
    Experiment,
    Table,
    column,
    columns,
    names,
    number,
    percent,
    with_spread,
)
from benchmarks.papers.qs.dispatch_modes import compared, steps
from benchmarks.papers.results import Row, grouped
from benchmarks.papers.schedule_metrics import overlap
from common.page.chart import axes, line

_WAYS = {
    DispatchMode.QUEUE_STREAM.value: "Q-S",
    DispatchMode.MULTI_CONTEXT.value: "M-C",
    DispatchMode.SINGLE_CONTEXT.value: "S-C",
    DispatchMode.SINGLE_ISSUER.value: "1 issuer",
    DispatchMode.FORK_JOIN.value: "fork-join",
    DispatchMode.SERIAL.value: "serial",
}


def _makespans(rows: list[Row]) -> list[Row]:
    """One row for each workload and mode, with the rows of its ways by their names."""
    return [
        {"workload": workload, "mode": mode, "ways": {row["way"]: row for row in group}}
        for (workload, mode), group in grouped(rows, "workload", "mode").items()
    ]


def _of_way(way: str) -> Callable[[Row], str]:
    return lambda row: with_spread(row["ways"][way]) if way in row["ways"] else ""


def _bound_ms(row: Row) -> float | None:
    bounds = (one["bound_ms"] for one in row["ways"].values() if one.get("bound_ms"))
    return next(bounds, None)


def _shared(rows: list[Row]) -> Sequence[Row]:
    """The rows with their overlap to one network after another."""
    serial_ms = {
        (row["workload"], row["mode"]): row.get("ms")
        for row in rows
        if row["way"] == DispatchMode.SERIAL.value
    }
    overlaps = []
    for row in rows:
        if row.get("bound_ms"):
            one_by_one_ms: Any = serial_ms.get((row["workload"], row["mode"]))
            is_known = one_by_one_ms and row.get("ms")
            hidden = overlap(one_by_one_ms, row["ms"], row["bound_ms"]) if is_known else None
            overlaps.append({**row, "way": _WAYS[row["way"]], "overlap": hidden})
    return overlaps


def _busy_streams(rows: list[Row]) -> list[dict[str, Any]]:
    data = []
    for row in rows:
        if busy := row.get("busy"):
            streams = busy["streams_busy"]
            times_ms = [i * busy["bin_ms"] for i in range(len(streams))]
            data.append(line(row["way"].replace("_", " "), times_ms, streams, shape="hv"))
    return data


QS = Experiment(
    "qs",
    "Many networks on one device",
    steps,
    tables=(
        Table(
            "Q-S against the others",
            (
                *(*names("workload", "mode"), column("Q-S ms", "qs_ms")),
                *columns(percent, against_mc="to M-C", published_mc="publ."),
                *columns(percent, against_sc="to S-C", published_sc="publ."),
                *columns(percent, against_single_issuer="to 1 issuer"),
                *columns(percent, against_fork_join="to fork-join", against_serial="to serial"),
            ),
            compared,
        ),
        Table(
            "Makespan in ms: median, half the distance of the quartiles",
            (
                *names("workload", "mode"),
                *(Column(head, _of_way(way)) for way, head in _WAYS.items()),
                column("least by times alone", _bound_ms),
            ),
            _makespans,
        ),
        Table(
            "Overlap to one network after another",
            (*names("workload", "mode", "way"), *columns(number, overlap="overlap")),
            _shared,
        ),
    ),
    charts=(
        Chart(  # figure 5-4 of the queue-stream source
            "Streams busy over time: {workload}, {mode}",
            _busy_streams,
            axes("time in ms", "streams with a job under way"),
            by=("workload", "mode"),
            caption="One run with each job timed. A stream counts from the first kernel of a job to its "
            "last, and so while they wait for multiprocessors.",
        ),
    ),
)
