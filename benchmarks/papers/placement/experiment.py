"""Tables and figures of the memory experiment."""

from __future__ import annotations

from typing import Any

from benchmarks.papers.experiment import (
    Chart,
    Column,
    Experiment,
    Table,
    column,
    columns,
    decimals,
    names,
    number,
    part,
    percent,
    share,
    spread,
    text,
)
from benchmarks.papers.placement.reuse import (
    BY_SIZE,
    CONSTANTS,
    accuracy,
    crossovers,
    model_errors,
    steps,
)
from benchmarks.papers.results import Row, grouped
from common.page.chart import axes, line, points
from common.page.document import KeyFigure
from common.page.palette import SERIES

_MODELS = {"parameters by size": BY_SIZE, "one value each": CONSTANTS}
_NAMES = {"D": "device", "M": "managed", "H": "pinned"}
_COLOURS = dict(zip(_NAMES, SERIES, strict=False))
_REUSES = {"measured": "measured", "by_size": "by size", "predicted": "by constants"}


def _simulated(rows: list[Row]) -> str:
    """Note that the rows were simulated, and by which profile; empty if anything was measured."""
    modelled = [row for row in rows if row["part"] in {"reuse", "corun"}]
    timed = [row for row in rows if row["part"] == "profile" and not row.get("simulated", True)]
    if timed or not modelled or not all(row["simulated"] for row in modelled):
        return ""
    profiles = " and ".join(dict.fromkeys(row["profile"] for row in modelled))
    return f"Simulated, with measured parameters of {profiles}; nothing was timed."


def _parameters(rows: list[Row]) -> list[Row]:
    return [
        {"device": row["profile"]["name"], "parameter": name, "value": value}
        for row in part("profile")(rows)
        for name, value in row["profile"]["hardware"].items()
    ]


def _errors(rows: list[Row]) -> list[Row]:
    return [
        {"policy": policy, "model": model, **error}
        for model, prediction in _MODELS.items()
        for policy, error in model_errors(rows, prediction=prediction).items()
    ]


def _better(rows: list[Row]) -> list[Row]:
    judged = [
        (sizes, model, accuracy(rows, held_out=held_out, prediction=prediction))
        for model, prediction in _MODELS.items()
        for sizes, held_out in (("held-out", True), ("calibrated", False))
    ]
    return [{"sizes": sizes, "model": model, **vars(one)} for sizes, model, one in judged if one]


def _coruns(rows: list[Row]) -> list[Row]:
    """Plans, each beside the first of its device, which is serial."""
    found = []
    for group in grouped(part("corun")(rows), "profile").values():
        serial = group[0]
        for row in group:
            ms = "predicted_ms" if row["simulated"] else "ms"
            found.append(
                {
                    **row,
                    "device": _device(row),
                    "delay_ms": row[ms],
                    "against_serial": row[ms] / serial[ms] - 1,
                    "against_mb": row["total_mb"] / serial["total_mb"] - 1,
                }
            )
    return found


def _device(row: Row) -> str:
    return f"{row['profile']}{' (simulated)' if row['simulated'] else ''}"


def _reuse(key: str) -> Column:
    def cell(row: Row) -> str:
        if key not in row:
            return ""
        return f"over {row['most']}" if row[key] is None else str(row[key])

    return Column("by constants" if key == "predicted" else key.replace("_", " "), cell)


def _key_figures(rows: list[Row]) -> list[KeyFigure]:
    found = []
    if one := accuracy(rows, held_out=True):
        note = f"{one.right} of {one.cases}; regret {percent(one.mean_regret)} on average"
        found.append(
            KeyFigure("better policy predicted, held-out sizes", share(one.right / one.cases), note)
        )
    if errors := model_errors(rows):
        found.append(
            KeyFigure(
                "model error, D / M / H",
                " / ".join(f"{100 * errors[name]['overhead']:.1f}" for name in errors) + " %",
                "of overheads, geometric mean; published 9.6 / 11.8 / 6.5 % (TX2)",
            )
        )
    return found


def _by_reuse(rows: list[Row]) -> list[Row]:
    """The smallest, a middle and the largest size of each use."""
    found = []
    for group in grouped(part("reuse")(rows), "profile", "use").values():
        sizes = sorted({row["bytes"] for row in group})
        shown = dict.fromkeys((sizes[0], sizes[len(sizes) // 2], sizes[-1]))
        found += [row for nbytes in shown for row in group if row["bytes"] == nbytes]
    return found


def _responses(rows: list[Row]) -> list[dict[str, Any]]:
    data = []
    for policy, name in _NAMES.items():
        own = [row for row in rows if row["policy"] == policy]
        reuse, colour = [row["reuse"] for row in own], _COLOURS[policy]
        simulated = rows[0]["simulated"]
        if not simulated:
            data.append(points(name, reuse, [row["ms"] for row in own], color=colour))
        predicted_ms = [
            row["resident_ms"] + float(row[CONSTANTS] if row.get(BY_SIZE) is None else row[BY_SIZE])
            for row in own
        ]
        label = f"{name}, {'simulated' if simulated else 'predicted'}"
        data.append(line(label, reuse, predicted_ms, color=colour, dash="dot"))
    return data


def _crossings(rows: list[Row]) -> list[dict[str, Any]]:
    data = []
    for colour, ((use,), group) in zip(SERIES, grouped(rows, "use").items(), strict=False):
        sizes = [row["bytes"] for row in group]
        for (name, label), dash in zip(_REUSES.items(), ("solid", "dot", "dash"), strict=True):
            least, style = [row.get(name) for row in group], {"color": colour, "dash": dash}
            data.append(line(f"{use}, {label}", sizes, least, mode="lines+markers", **style))
    return data


def size(nbytes: int) -> str:
    """Format a size in KB or MB, powers of 1024."""
    return f"{nbytes // 2**20} MB" if nbytes >= 2**20 else f"{nbytes // 2**10} KB"


MEMORY = Experiment(
    "memory",
    "Placement of memory that CPU and GPU share",
    steps,
    tables=(
        Table(
            "Parameters of the model (table III)",
            (*names("device", "parameter"), *columns(decimals(".4g"), value="value")),
            _parameters,
        ),
        Table(
            "Least reuse from which device memory beats pinned memory",
            (
                Column("device", _device, is_name=True),
                *names("use"),
                Column("bytes", lambda row: size(row["bytes"]), is_name=True),
                *(_reuse(key) for key in ("measured", "predicted", "by_size")),
            ),
            crossovers,
        ),
        Table(
            "Error of the model on held-out sizes, geometric mean; as published for overheads",
            (
                *(*names("policy", "model"), *columns(text, cases="cases")),
                *columns(
                    share,
                    overhead="overhead",
                    response="response",
                    mean_overhead="overhead, mean",
                    mean_response="response, mean",
                    published_tx2="TX2, publ.",
                    published_agx="AGX, publ.",
                ),
            ),
            _errors,
        ),
        Table(
            "The better of device and pinned memory, predicted",
            (
                *(*names("sizes", "model"), *columns(text, cases="cases")),
                column("right", lambda row: row["right"] / row["cases"], share),
                column(
                    "right where quartiles part",
                    lambda row: f"{row['clear_right']} of {row['clear_cases']}",
                    text,
                ),
                *columns(percent, mean_regret="regret, mean", largest_regret="largest"),
            ),
            _better,
        ),
        Table(
            "Co-run of eight tasks",
            (
                *names("device", "plan", "policies"),
                column("pairs", lambda row: f"{row['pairs']} of {row['rounds']}", text),
                Column("makespan ms", lambda row: "" if row["simulated"] else spread("").cell(row)),
                *columns(number, predicted_ms="predicted"),
                *columns(percent, against_serial="to serial"),
                *columns(decimals(".0f"), total_mb="MB"),
                *columns(percent, against_mb="to all D"),
            ),
            _coruns,
        ),
    ),
    charts=(
        Chart(
            lambda rows: f"{_device(rows[0])}: {rows[0]['use']}, {size(rows[0]['bytes'])}",
            _responses,
            axes("passes over the data", "response in ms", log="xy"),
            _by_reuse,
            by=("profile", "use", "bytes"),
        ),
        Chart(
            "Crossover of device and pinned memory",
            _crossings,
            axes("bytes", "least reuse for which device memory is faster", log="x"),
            lambda rows: [row for row in crossovers(rows) if not row["simulated"]],
        ),
        Chart(
            "Co-run on {device}",
            lambda rows: [
                points(row["plan"], [row["total_mb"]], [row["delay_ms"]], color=colour, size=10)
                for row, colour in zip(rows, SERIES, strict=False)
            ],
            axes("memory of all tasks in MB, host and device", "makespan in ms", from_0="y"),
            _coruns,
            by=("device",),
        ),
    ),
    key_figures=_key_figures,
    simulated=_simulated,
)
