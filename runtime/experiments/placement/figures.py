"""Figures and key figures of the memory experiment."""

from __future__ import annotations

from typing import Any

from runtime.experiments.placement.measure import (
    BY_SIZE,
    CONSTANTS,
    accuracy,
    crossovers,
    model_errors,
)
from runtime.page.document import KeyFigure
from runtime.page.palette import GREY, SERIES
from runtime.page.parts import Figure
from runtime.page.results import Row
from runtime.page.table_view import percent

_NAMES = {"D": "device", "M": "managed", "H": "pinned"}
_TOLD = {"measured": "measured", "by_size": "by size", "predicted": "by constants"}
_COLOURS = dict(zip(_NAMES, SERIES, strict=False))


def memory_figures(rows: list[Row]) -> list[Figure]:
    """Figures of the measured parts."""
    return [*_by_reuse(rows), *_crossover(rows), *_corun(rows), *_decisions(rows)]


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
    follow = [row for row in rows if row["part"] == "decisions" and row["reading"] == "totals"]
    if follow:
        found.append(
            KeyFigure(
                "decisions of table IV, simulated",
                f"{sum(row['follow'] for row in follow)} of {sum(row['of'] for row in follow)}",
                "with stand-ins chosen for it; see the table",
            )
        )
    return found


def _by_reuse(rows: list[Row]) -> list[Figure]:
    own = [row for row in rows if row["part"] == "reuse"]
    figures = []
    for profile, use in dict.fromkeys((row["profile"], row["use"]) for row in own):
        mine = [row for row in own if (row["profile"], row["use"]) == (profile, use)]
        sizes = sorted({row["bytes"] for row in mine})
        simulated = mine[0]["simulated"]
        for nbytes in dict.fromkeys((sizes[0], sizes[len(sizes) // 2], sizes[-1])):
            data: list[dict[str, Any]] = []
            for policy, name in _NAMES.items():
                line = [row for row in mine if (row["bytes"], row["policy"]) == (nbytes, policy)]
                reuse = [row["reuse"] for row in line]
                if not simulated:
                    data.append(
                        {
                            "type": "scatter",
                            "mode": "markers",
                            "name": name,
                            "marker": {"color": _COLOURS[policy]},
                            "x": reuse,
                            "y": [row["ms"] for row in line],
                        }
                    )
                data.append(
                    {
                        "type": "scatter",
                        "mode": "lines",
                        "name": f"{name}, {'simulated' if simulated else 'predicted'}",
                        "line": {"color": _COLOURS[policy], "dash": "dot"},
                        "x": reuse,
                        "y": [row["resident_ms"] + _predicted_ms(row) for row in line],
                    }
                )
            layout = {
                "xaxis": {"type": "log", "title": {"text": "passes over the data"}},
                "yaxis": {"type": "log", "title": {"text": "response in ms"}},
            }
            told = " (simulated)" if simulated else ""
            figures.append(Figure(f"{profile}{told}: {use}, {size(nbytes)}", data, layout))
    return figures


def _predicted_ms(row: Row) -> float:
    by_size = row.get(BY_SIZE)
    return float(row[CONSTANTS] if by_size is None else by_size)


def _crossover(rows: list[Row]) -> list[Figure]:
    own = [row for row in crossovers(rows) if not row["simulated"]]
    data: list[dict[str, Any]] = []
    for colour, use in zip(SERIES, dict.fromkeys(row["use"] for row in own), strict=False):
        mine = [row for row in own if row["use"] == use]
        for name, dash in (("measured", "solid"), ("by_size", "dot"), ("predicted", "dash")):
            data.append(
                {
                    "type": "scatter",
                    "mode": "lines+markers",
                    "name": f"{use}, {_TOLD[name]}",
                    "line": {"color": colour, "dash": dash},
                    "x": [row["bytes"] for row in mine],
                    "y": [row.get(name) for row in mine],
                }
            )
    layout = {
        "xaxis": {"type": "log", "title": {"text": "bytes"}},
        "yaxis": {"title": {"text": "least reuse for which device memory is faster"}},
    }
    return [Figure("Crossover of device and pinned memory", data, layout)] if data else []


def _corun(rows: list[Row]) -> list[Figure]:
    own = [row for row in rows if row["part"] == "corun"]
    figures = []
    for profile in dict.fromkeys(row["profile"] for row in own):
        mine = [row for row in own if row["profile"] == profile]
        simulated = mine[0]["simulated"]
        data = [
            {
                "type": "scatter",
                "mode": "markers",
                "name": row["plan"],
                "x": [row["total_mb"]],
                "y": [row["predicted_ms"] if simulated else row["ms"]],
                "marker": {"color": colour, "size": 10},
            }
            for row, colour in zip(mine, SERIES, strict=False)
        ]
        layout = {
            "xaxis": {"title": {"text": "memory of all tasks in MB, host and device"}},
            "yaxis": {"title": {"text": "makespan in ms"}, "rangemode": "tozero"},
        }
        told = " (simulated)" if simulated else ""
        figures.append(Figure(f"Co-run on {profile}{told}", data, layout))
    return figures


def _decisions(rows: list[Row]) -> list[Figure]:
    own = [row for row in rows if row["part"] == "decisions"]
    data: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "mode": "lines",
            "line": {"shape": "hv", "color": colour},
            "name": f"{row['profile']}, equation 9 by {row['reading']}",
            "x": [1e3 * ms for ms in row["flush_ms"]],
            "y": row["follow_by_flush"],
        }
        for row, colour in zip(own, (*SERIES, GREY), strict=False)
    ]
    layout = {
        "xaxis": {"type": "log", "title": {"text": "Ca_gpu in us, not published"}},
        "yaxis": {"title": {"text": "decisions that follow, of 7"}},
    }
    return [Figure("Decisions of table IV by the cost of a flush", data, layout)] if own else []


def size(nbytes: int) -> str:
    """Format a size in KB or MB, powers of 1024."""
    return f"{nbytes // 2**20} MB" if nbytes >= 2**20 else f"{nbytes // 2**10} KB"
