"""Tables and figures of the comparison with the optimal schedule."""

from __future__ import annotations

from benchmarks.papers.results import Row, grouped
from benchmarks.papers.table_view import TableView, percent
from benchmarks.papers.view import View
from common.page.chart import axes, bars
from common.page.parts import Figure


def _tables(rows: list[Row]) -> list[TableView]:
    policies = [*dict.fromkeys(row["policy"] for row in rows)]
    lines = []
    for (workload,), group in grouped(rows, "workload").items():
        own = {row["policy"]: row for row in group}
        best = next(iter(own.values()))
        cells = [_above(own[one]) if one in own else "" for one in policies]
        lines.append([workload, str(best["jobs"]), f"{best['optimum_ms']:.2f}", *cells])
    header = ["networks", "jobs", "optimum ms", *policies]
    title = "Above the best schedule (simulated, measured times); of many cases median, and worst"
    return [TableView(title, header, lines, 1)]


def _above(row: Row) -> str:
    worst = row.get("worst_above_optimum")
    return percent(row["above_optimum"]) + ("" if worst is None else f", {percent(worst)}")


def _figures(rows: list[Row]) -> list[Figure]:
    """Distance of each policy from the optimum."""
    data = [
        bars(
            policy.replace("_", " "),
            [row["workload"] for row in own],
            [100 * row["above_optimum"] for row in own],
        )
        for (policy,), own in grouped(rows, "policy").items()
    ]
    layout = axes(y="makespan above the optimum, %", barmode="group")
    note = "Simulated. Of many random cases the median; the aim is 5 %."
    return [Figure("Policies and the best schedule", data, layout, note)] if data else []


OPTIMUM = View("Policies against the best schedule", _tables, _figures, stands_in_for_gpu=True)
