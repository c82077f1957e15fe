"""Tables of the memory experiment."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.papers.placement.figures import memory_figures, memory_key_figures, size
from benchmarks.papers.placement.measure import (
    BY_SIZE,
    CONSTANTS,
    accuracy,
    crossovers,
    model_errors,
)
from benchmarks.papers.results import Row, grouped
from benchmarks.papers.table_view import TableView, percent, with_spread
from benchmarks.papers.view import View

_MODELS = {"parameters by size": BY_SIZE, "one value each": CONSTANTS}


def _tables(rows: list[Row]) -> list[TableView]:
    """Tables of the measured parts."""
    parts = (_parameters, _crossover, _errors, _better, _corun)
    return [one for one in (part(rows) for part in parts) if one.rows]


def _simulated(rows: list[Row]) -> str:
    """Note that the rows were simulated, and by which profile; empty if anything was measured."""
    told = [row for row in rows if row["part"] in {"reuse", "corun"}]
    timed = [row for row in rows if row["part"] == "profile" and not row.get("simulated", True)]
    if timed or not told or not all(row["simulated"] for row in told):
        return ""
    names = " and ".join(dict.fromkeys(row["profile"] for row in told))
    return f"Simulated, with measured parameters of {names}; nothing was timed."


def _parameters(rows: Sequence[Row]) -> TableView:
    lines = [
        [
            row["profile"]["name"],
            name,
            "" if value is None else f"{value:.4g}",
        ]
        for row in rows
        if row["part"] == "profile"
        for name, value in row["profile"]["hardware"].items()
    ]
    return TableView(
        "Parameters of the model (table III)", ["device", "parameter", "value"], lines, 2
    )


def _crossover(rows: Sequence[Row]) -> TableView:
    lines = [
        [
            row["profile"] + (" (simulated)" if row["simulated"] else ""),
            row["use"],
            size(row["bytes"]),
            *(_reuse(row, name) for name in ("measured", "predicted", "by_size")),
        ]
        for row in crossovers(rows)
    ]
    title = "Least reuse from which device memory beats pinned memory"
    return TableView(
        title, ["device", "use", "bytes", "measured", "by constants", "by size"], lines, 3
    )


def _reuse(row: Row, name: str) -> str:
    if name not in row:
        return ""
    return f"over {row['most']}" if row[name] is None else str(row[name])


def _errors(rows: Sequence[Row]) -> TableView:
    columns = ("overhead", "response", "mean_overhead", "mean_response")
    published = ("published_tx2", "published_agx")
    lines = [
        [
            *(policy, model, str(one["cases"])),
            *(
                "" if (v := one[name]) is None else f"{100 * v:.1f} %"
                for name in columns + published
            ),
        ]
        for model, prediction in _MODELS.items()
        for policy, one in model_errors(rows, prediction=prediction).items()
    ]
    header = ["policy", "model", "cases", "overhead", "response", "overhead, mean"]
    return TableView(
        "Error of the model on held-out sizes, geometric mean; as published for overheads",
        [*header, "response, mean", "TX2, publ.", "AGX, publ."],
        lines,
        2,
    )


def _better(rows: Sequence[Row]) -> TableView:
    lines = []
    for model, prediction in _MODELS.items():
        for sizes, held_out in (("held-out", True), ("calibrated", False)):
            one = accuracy(rows, held_out=held_out, prediction=prediction)
            if one is not None:
                clear = f"{one.clear_right} of {one.clear_cases}"
                regrets = percent(one.mean_regret), percent(one.largest_regret)
                lines.append(
                    [sizes, model, str(one.cases), f"{100 * one.share:.1f} %", clear, *regrets]
                )
    header = ["sizes", "model", "cases", "right", "right where quartiles part", "regret, mean"]
    title = "The better of device and pinned memory, predicted"
    return TableView(title, [*header, "largest"], lines, 2)


def _corun(rows: Sequence[Row]) -> TableView:
    lines = []
    own = [row for row in rows if row["part"] == "corun"]
    for mine in grouped(own, "profile").values():
        lines += [_corun_line(row, mine[0]) for row in mine]
    header = ["device", "plan", "policies", "pairs", "makespan ms", "predicted", "to serial"]
    return TableView("Co-run of eight tasks", [*header, "MB", "to all D"], lines, 3)


def _corun_line(row: Row, serial: Row) -> list[str]:
    name = "predicted_ms" if row["simulated"] else "ms"
    return [
        row["profile"] + (" (simulated)" if row["simulated"] else ""),
        row["plan"],
        row["policies"],
        f"{row['pairs']} of {row['rounds']}",
        "" if row["simulated"] else with_spread(row),
        "" if row["predicted_ms"] is None else f"{row['predicted_ms']:.2f}",
        percent(row[name] / serial[name] - 1),
        f"{row['total_mb']:.0f}",
        percent(row["total_mb"] / serial["total_mb"] - 1),
    ]


MEMORY = View(
    "Placement of memory that CPU and GPU share",
    _tables,
    memory_figures,
    memory_key_figures,
    simulated=_simulated,
)
