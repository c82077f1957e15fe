"""Tables and figures of the comparison with the optimal schedule."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.papers.experiment import (
    Column,
    Experiment,
    Table,
    columns,
    names,
    number,
    percent,
    text,
)
from benchmarks.papers.optimum.distance import steps
from benchmarks.papers.results import Row, grouped


def _by_workload(rows: list[Row]) -> list[Row]:
    """One row for each workload, with the rows of its policies by their names."""
    return [
        {**group[0], "policies": {row["policy"]: row for row in group}}
        for group in grouped(rows, "workload").values()
    ]


def _columns(rows: list[Row]) -> list[Column]:
    policies = dict.fromkeys(policy for row in rows for policy in row["policies"])
    return [
        *names(workload="networks"),
        *columns(text, jobs="jobs"),
        *columns(number, optimum_ms="optimum ms"),
        *(Column(policy, _above(policy)) for policy in policies),
    ]


def _above(policy: str) -> Callable[[Row], str]:
    def cell(row: Row) -> str:
        own = row["policies"].get(policy, {})
        worst = own.get("worst_above_optimum")
        return percent(own.get("above_optimum")) + ("" if worst is None else f", {percent(worst)}")

    return cell


OPTIMUM = Experiment(
    "optimum",
    "Policies against the best schedule",
    steps,
    tables=(
        Table(
            "Above the best schedule (simulated, synthetic times): median of the cases, and worst",
            _columns,
            _by_workload,
        ),
    ),
)
