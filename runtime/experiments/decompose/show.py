"""Tables and figures of the comparison of decomposition rules."""

from __future__ import annotations

from runtime.page.parts import Figure
from runtime.page.results import Row
from runtime.page.table_view import TableView, percent, with_spread
from runtime.page.view import View


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
    for rule in dict.fromkeys(row["rule"] for row in rows):
        own = [row for row in rows if row["rule"] == rule and row.get("ms")]
        data.append(
            {
                "type": "bar",
                "name": rule,
                "x": [f"{row['network']}, {row['mode']}" for row in own],
                "y": [row["ms"] for row in own],
            }
        )
    layout = {"barmode": "group", "yaxis": {"type": "log", "title": {"text": "makespan in ms"}}}
    return [Figure("Makespan of Q-S by rule", data, layout)] if rows else []


DECOMPOSE = View("What cutting networks into jobs costs", _tables, _figures)
