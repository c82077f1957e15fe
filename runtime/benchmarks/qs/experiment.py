"""Tables and figures of the comparison of dispatch modes."""

from __future__ import annotations

from typing import Any

from benchmarks.dispatch.modes import DispatchMode
from benchmarks.experiment import Chart, PaperExperiment, ResultTable
from benchmarks.qs.dispatch_modes import compared, steps
from benchmarks.results import Row
from benchmarks.schedule_metrics import overlap
from edgenas_core.page.chart import axes, line


def _with_overlap(rows: list[Row]) -> list[Row]:
    """The rows with their overlap to one network after another."""
    serial_ms = {
        (row["workload"], row["mode"]): row.get("ms")
        for row in rows
        if row["way"] == DispatchMode.SERIAL.value
    }

    def hidden(row: Row) -> float | None:
        one_by_one_ms = serial_ms.get((row["workload"], row["mode"]))
        if not one_by_one_ms or not row.get("ms"):
            return None
        return overlap(one_by_one_ms, row["ms"], row["bound_ms"])

    return [{**row, "overlap": hidden(row)} for row in rows]


def _busy_streams(rows: list[Row]) -> list[dict[str, Any]]:
    data = []
    for row in rows:
        if busy := row.get("busy"):
            streams = busy["streams_busy"]
            times_ms = [i * busy["bin_ms"] for i in range(len(streams))]
            data.append(line(row["way"].replace("_", " "), times_ms, streams, shape="hv"))
    return data


QS = PaperExperiment(
    "qs",
    "Many networks on one device",
    steps,
    tables=(
        ResultTable(
            "Q-S against the others",
            "workload mode qs_ms against_mc:+.1% published_mc:+.1% against_sc:+.1% published_sc:+.1% "
            "against_single_issuer:+.1% against_fork_join:+.1% against_serial:+.1%",
            compared,
        ),
        ResultTable(
            "Makespan in ms, the least by times alone, and overlap to one network after another",
            "workload mode way ms bound_ms overlap",
            _with_overlap,
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
