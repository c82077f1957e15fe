"""Table of the simulator experiment."""

from __future__ import annotations

from benchmarks.experiment import PaperExperiment, ResultTable
from benchmarks.results import Row
from benchmarks.simulator.makespan_error import median_error, steps


def _title(rows: list[Row]) -> str:
    error = median_error(rows)
    errors = "" if error is None else f": median error {100 * error:.1f} %"
    return f"Simulated against real makespan{errors}"


SIMULATOR = PaperExperiment(
    "simulator",
    "The simulator against the machine",
    steps,
    tables=(
        ResultTable(
            _title,
            "workload rule arrivals policy ms simulated_ms error_of_simulator:+.1% bound_ms",
        ),
    ),
    stands_in_for_gpu=True,
)
