"""Tables and figures of the memory experiment."""

from __future__ import annotations

from benchmarks.papers.experiment import (
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
    model_errors,
    steps,
)
from benchmarks.papers.results import Row, grouped

_MODELS = {"parameters by size": BY_SIZE, "one value each": CONSTANTS}


def _simulated(rows: list[Row]) -> str:
    """Note that the rows were simulated, and by which profile; empty if anything was measured."""
    modelled = [row for row in rows if row["part"] in {"reuse", "corun"}]
    timed = [row for row in rows if row["part"] == "profile" and not row.get("simulated", True)]
    if timed or not modelled or not all(row["simulated"] for row in modelled):
        return ""
    profiles = " and ".join(dict.fromkeys(row["profile"] for row in modelled))
    return f"Simulated, with measured parameters of {profiles}; nothing was timed."


def _responses(rows: list[Row]) -> list[Row]:
    """One row for each use, size and reuse, with the response under each policy."""
    return [
        {**group[0], **{row["policy"]: row["ms"] for row in group}}
        for group in grouped(part("reuse")(rows), "profile", "use", "bytes", "reuse").values()
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
    plans = []
    for group in grouped(part("corun")(rows), "profile").values():
        serial = group[0]
        for row in group:
            ms = "predicted_ms" if row["simulated"] else "ms"
            plans.append(
                {
                    **row,
                    "device": _device(row),
                    "delay_ms": row[ms],
                    "against_serial": row[ms] / serial[ms] - 1,
                    "against_mb": row["total_mb"] / serial["total_mb"] - 1,
                }
            )
    return plans


def _device(row: Row) -> str:
    return f"{row['profile']}{' (simulated)' if row['simulated'] else ''}"


def size(nbytes: int) -> str:
    """Format a size in KB or MB, powers of 1024."""
    return f"{nbytes // 2**20} MB" if nbytes >= 2**20 else f"{nbytes // 2**10} KB"


MEMORY = Experiment(
    "memory",
    "Placement of memory that CPU and GPU share",
    steps,
    tables=(
        Table(
            "Response in ms",
            (
                Column("device", _device, is_name=True),
                *names("use"),
                Column("bytes", lambda row: size(row["bytes"]), is_name=True),
                *names("reuse"),
                *columns(decimals(".4g"), D="device", H="pinned", M="managed"),
                *names(guideline_1="guideline 1"),
            ),
            _responses,
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
    simulated=_simulated,
)
