"""Table of the comparison with the optimal schedule."""

from __future__ import annotations

from benchmarks.papers.experiment import Experiment, Table
from benchmarks.papers.optimum.distance import steps

OPTIMUM = Experiment(
    "optimum",
    "Policies against the best schedule",
    steps,
    tables=(
        Table(
            "Above the best schedule (simulated, synthetic times): median of the cases, and worst",
            "workload policy jobs optimum_ms above_optimum:+.1% worst_above_optimum:+.1%",
        ),
    ),
)
