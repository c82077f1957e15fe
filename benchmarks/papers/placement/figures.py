"""Figures and key figures of the memory experiment."""

from __future__ import annotations

from benchmarks.papers.placement.measure import (
    BY_SIZE,
    CONSTANTS,
    accuracy,
    crossovers,
    model_errors,
)
from benchmarks.papers.results import Row, grouped
from benchmarks.papers.table_view import percent
from common.page.chart import axes, line, points
from common.page.document import KeyFigure
from common.page.palette import SERIES
from common.page.parts import Figure

_NAMES = {"D": "device", "M": "managed", "H": "pinned"}
_TOLD = {"measured": "measured", "by_size": "by size", "predicted": "by constants"}
_COLOURS = dict(zip(_NAMES, SERIES, strict=False))


def memory_figures(rows: list[Row]) -> list[Figure]:
    """Figures of the measured parts."""
    return [*_by_reuse(rows), *_crossover(rows), *_corun(rows)]


def memory_key_figures(rows: list[Row]) -> list[KeyFigure]:
    """Key figures of the measured parts."""
    found = []
    one = accuracy(rows, held_out=True)
    if one is not None:
        found.append(
            KeyFigure(
                "better policy predicted, held-out sizes",
                f"{100 * one.share:.1f} %",
                f"{one.right} of {one.cases}; regret {percent(one.mean_regret)} on average",
            )
        )
    errors = model_errors(rows)
    if errors:
        found.append(
            KeyFigure(
                "model error, D / M / H",
                " / ".join(f"{100 * errors[name]['overhead']:.1f}" for name in errors) + " %",
                "of overheads, geometric mean; published 9.6 / 11.8 / 6.5 % (TX2)",
            )
        )
    return found


def _by_reuse(rows: list[Row]) -> list[Figure]:
    own = [row for row in rows if row["part"] == "reuse"]
    figures = []
    for (profile, use), mine in grouped(own, "profile", "use").items():
        sizes = sorted({row["bytes"] for row in mine})
        simulated = mine[0]["simulated"]
        for nbytes in dict.fromkeys((sizes[0], sizes[len(sizes) // 2], sizes[-1])):
            data = []
            for policy, name in _NAMES.items():
                of_policy = [
                    row for row in mine if (row["bytes"], row["policy"]) == (nbytes, policy)
                ]
                reuse, colour = [row["reuse"] for row in of_policy], _COLOURS[policy]
                if not simulated:
                    data.append(points(name, reuse, [row["ms"] for row in of_policy], color=colour))
                predicted_ms = [row["resident_ms"] + _predicted_ms(row) for row in of_policy]
                told = f"{name}, {'simulated' if simulated else 'predicted'}"
                data.append(line(told, reuse, predicted_ms, color=colour, dash="dot"))
            layout = axes("passes over the data", "response in ms", log="xy")
            title = f"{profile}{_simulated(mine[0])}: {use}, {size(nbytes)}"
            figures.append(Figure(title, data, layout))
    return figures


def _predicted_ms(row: Row) -> float:
    by_size = row.get(BY_SIZE)
    return float(row[CONSTANTS] if by_size is None else by_size)


def _crossover(rows: list[Row]) -> list[Figure]:
    own = [row for row in crossovers(rows) if not row["simulated"]]
    data = []
    for colour, ((use,), mine) in zip(SERIES, grouped(own, "use").items(), strict=False):
        sizes = [row["bytes"] for row in mine]
        for name, dash in (("measured", "solid"), ("by_size", "dot"), ("predicted", "dash")):
            least, style = [row.get(name) for row in mine], {"color": colour, "dash": dash}
            data.append(line(f"{use}, {_TOLD[name]}", sizes, least, mode="lines+markers", **style))
    layout = axes("bytes", "least reuse for which device memory is faster", log="x")
    return [Figure("Crossover of device and pinned memory", data, layout)] if data else []


def _corun(rows: list[Row]) -> list[Figure]:
    own = [row for row in rows if row["part"] == "corun"]
    figures = []
    for (profile,), mine in grouped(own, "profile").items():
        ms = "predicted_ms" if mine[0]["simulated"] else "ms"
        data = [
            points(row["plan"], [row["total_mb"]], [row[ms]], color=colour, size=10)
            for row, colour in zip(mine, SERIES, strict=False)
        ]
        layout = axes("memory of all tasks in MB, host and device", "makespan in ms", from_0="y")
        figures.append(Figure(f"Co-run on {profile}{_simulated(mine[0])}", data, layout))
    return figures


def _simulated(row: Row) -> str:
    return " (simulated)" if row["simulated"] else ""


def size(nbytes: int) -> str:
    """Format a size in KB or MB, powers of 1024."""
    return f"{nbytes // 2**20} MB" if nbytes >= 2**20 else f"{nbytes // 2**10} KB"
