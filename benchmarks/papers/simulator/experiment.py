"""Tables and figures of the simulator experiment."""

from __future__ import annotations

from typing import Any

from benchmarks.papers.experiment import (
    Chart,
    Experiment,
    Table,
    columns,
    having,
    names,
    number,
    percent,
    series,
    spread,
)
from benchmarks.papers.results import Row
from benchmarks.papers.simulator.makespan_error import median_error, steps
from common.page.chart import axes, diagonal, points
from common.page.document import KeyFigure


def _title(rows: list[Row]) -> str:
    error, without = median_error(rows), median_error(rows, "error_without_issuer")
    errors = "" if error is None else f": median error {100 * error:.1f} %"
    errors += "" if without is None else f", without the issuing thread {100 * without:.1f} %"
    return f"Simulated against real makespan{errors}"


_by_policy = series(
    points,
    "policy",
    "ms",
    "simulated_ms",
    text=lambda row: f"{row['workload']} {row['rule']} {row['arrivals']}",
)


def _makespans(rows: list[Row]) -> list[dict[str, Any]]:
    times = [row["ms"] for row in rows]
    return [diagonal(min(times), max(times)), *_by_policy(rows)]


def _key_figures(rows: list[Row]) -> list[KeyFigure]:
    error = median_error(rows)
    if error is None:
        return []
    return [KeyFigure("median error of the makespan", f"{100 * error:.1f} %")]


SIMULATOR = Experiment(
    "simulator",
    "The simulator against the machine",
    steps,
    tables=(
        Table(
            _title,
            (
                *(*names(workload="networks"), *names("rule", "arrivals", "policy")),
                *(spread("real ms"), *columns(number, simulated_ms="simulated")),
                *columns(percent, error_of_simulator="error", error_without_issuer="no issuer"),
                *columns(number, bound_ms="bound"),
            ),
        ),
    ),
    charts=(
        Chart(
            "Simulated and real makespan",
            _makespans,
            axes("real makespan in ms", "simulated makespan in ms", log="xy"),
            having("ms"),
        ),
    ),
    key_figures=_key_figures,
    stands_in_for_gpu=True,
)
