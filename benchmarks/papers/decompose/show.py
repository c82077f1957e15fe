"""Tables and figures of the comparison of decomposition rules."""

from __future__ import annotations

from benchmarks.papers.results import Row, grouped
from benchmarks.papers.table_view import TableView, percent, with_spread
from benchmarks.papers.view import View
from common.page.chart import axes, bars
from common.page.parts import Figure


def _tables(rows: list[Row]) -> list[TableView]:
    first: dict[tuple[str, str], float] = {}
    lines = []
    for row in rows:
        key = row["network"], row["mode"]
        if row.get("ms"):
            first.setdefault(key, row["ms"])
        gain = row["ms"] / first[key] - 1 if row.get("ms") else None
        lines.append([*key, row["rule"], str(row.get("jobs", "")), with_spread(row), percent(gain)])
    header = ["network", "mode", "rule", "jobs", "makespan ms", "to the first rule"]
    return [TableView("Q-S by the rule of cutting", header, lines, 3)]


def _figures(rows: list[Row]) -> list[Figure]:
    data = []
    for (rule,), every in grouped(rows, "rule").items():
        own = [row for row in every if row.get("ms")]
        names = [f"{row['network']}, {row['mode']}" for row in own]
        data.append(bars(rule, names, [row["ms"] for row in own]))
    layout = axes(y="makespan in ms", log="y", barmode="group")
    return [Figure("Makespan of Q-S by rule", data, layout)] if rows else []


DECOMPOSE = View("What cutting networks into jobs costs", _tables, _figures)
