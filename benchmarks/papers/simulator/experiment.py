"""Tables and figures of the simulator experiment."""

from __future__ import annotations

from benchmarks.papers.experiment import (
    Experiment,
    Table,
    columns,
    names,
    number,
    percent,
    spread,
)
from benchmarks.papers.results import Row
from benchmarks.papers.simulator.makespan_error import median_error, steps


def _title(rows: list[Row]) -> str:
    error, without = median_error(rows), median_error(rows, "error_without_issuer")
    errors = "" if error is None else f": median error {100 * error:.1f} %"
    errors += "" if without is None else f", without the issuing thread {100 * without:.1f} %"
    return f"Simulated against real makespan{errors}"


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
    stands_in_for_gpu=True,
)
