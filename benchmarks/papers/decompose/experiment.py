"""Tables and figures of the comparison of decomposition rules."""

from __future__ import annotations

from benchmarks.papers.decompose.rules import steps
from benchmarks.papers.experiment import (
    Chart,
    Experiment,
    Table,
    columns,
    having,
    names,
    percent,
    series,
    spread,
    text,
)
from benchmarks.papers.results import Row
from common.page.chart import axes, bars


def _with_gain(rows: list[Row]) -> list[Row]:
    """Each row with its makespan relative to the first rule of its network and mode."""
    first: dict[tuple[str, str], float] = {}
    found = []
    for row in rows:
        ms = row.get("ms")
        first_ms = first.setdefault((row["network"], row["mode"]), ms) if ms else None
        found.append({**row, "gain": ms / first_ms - 1 if ms and first_ms else None})
    return found


DECOMPOSE = Experiment(
    "decompose",
    "What cutting networks into jobs costs",
    steps,
    tables=(
        Table(
            "Q-S by the rule of cutting",
            (
                *(*names("network", "mode", "rule"), *columns(text, jobs="jobs")),
                *(spread("makespan ms"), *columns(percent, gain="to the first rule")),
            ),
            _with_gain,
        ),
    ),
    charts=(
        Chart(
            "Makespan of Q-S by rule",
            series(bars, "rule", lambda row: f"{row['network']}, {row['mode']}", "ms"),
            axes(y="makespan in ms", log="y", barmode="group"),
            having("ms"),
        ),
    ),
)
