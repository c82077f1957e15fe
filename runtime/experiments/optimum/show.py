"""Tables and figures of the comparison with the optimal schedule."""

from __future__ import annotations

from runtime.page.parts import Figure
from runtime.page.results import Row
from runtime.page.table_view import TableView, percent
from runtime.page.view import View


def _tables(rows: list[Row]) -> list[TableView]:
    policies = [*dict.fromkeys(row["policy"] for row in rows)]
    lines = []
    for workload in dict.fromkeys(row["workload"] for row in rows):
        own = {row["policy"]: row for row in rows if row["workload"] == workload}
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
    data = []
    for policy in dict.fromkeys(row["policy"] for row in rows):
        own = [row for row in rows if row["policy"] == policy]
        data.append(
            {
                "type": "bar",
                "name": policy.replace("_", " "),
                "x": [row["workload"] for row in own],
                "y": [100 * row["above_optimum"] for row in own],
            }
        )
    layout = {
        "barmode": "group",
        "yaxis": {"title": {"text": "makespan above the optimum, %"}},
    }
    note = "Simulated. Of many random cases the median; the aim is 5 %."
    return [Figure("Policies and the best schedule", data, layout, note)] if data else []


OPTIMUM = View("Policies against the best schedule", _tables, _figures, stands_in_for_gpu=True)
