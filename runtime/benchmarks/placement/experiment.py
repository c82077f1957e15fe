"""Tables of the memory experiment."""

from __future__ import annotations

from benchmarks.experiment import PaperExperiment, ResultTable, part
from benchmarks.placement.reuse import accuracy, model_errors, steps
from benchmarks.results import Row, grouped


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
        {
            **group[0],
            "device": _device(group[0]),
            "size": _size(group[0]["bytes"]),
            **{row["policy"]: row["ms"] for row in group},
        }
        for group in grouped(part("reuse")(rows), "profile", "use", "bytes", "reuse").values()
    ]


def _errors(rows: list[Row]) -> list[Row]:
    return [{"policy": policy, **error} for policy, error in model_errors(rows).items()]


def _better(rows: list[Row]) -> list[Row]:
    judged = {
        "held-out": accuracy(rows, held_out=True),
        "calibrated": accuracy(rows, held_out=False),
    }
    return [
        {"sizes": sizes, "share": one.share, **vars(one)} for sizes, one in judged.items() if one
    ]


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
                    "against_serial": row[ms] / serial[ms] - 1,
                    "against_mb": row["total_mb"] / serial["total_mb"] - 1,
                }
            )
    return plans


def _device(row: Row) -> str:
    return f"{row['profile']}{' (simulated)' if row['simulated'] else ''}"


def _size(nbytes: int) -> str:
    """Format a size in KB or MB, powers of 1024."""
    return f"{nbytes // 2**20} MB" if nbytes >= 2**20 else f"{nbytes // 2**10} KB"


MEMORY = PaperExperiment(
    "memory",
    "Placement of memory that CPU and GPU share",
    steps,
    tables=(
        ResultTable(
            "Response in ms: device, pinned, managed",
            "device use size reuse D:.4g H:.4g M:.4g guideline_1",
            _responses,
        ),
        ResultTable(
            "Error of the model on held-out sizes, geometric mean; as published for overheads",
            "policy cases overhead:.1% response:.1% mean_overhead:.1% mean_response:.1% "
            "published_tx2:.1% published_agx:.1%",
            _errors,
        ),
        ResultTable(
            "The better of device and pinned memory, predicted; clear where their quartiles part",
            "sizes cases share:.1% clear_right clear_cases mean_regret:+.1% largest_regret:+.1%",
            _better,
        ),
        ResultTable(
            "Co-run of eight tasks, beside serial device memory",
            "device plan policies pairs rounds ms:.2f predicted_ms against_serial:+.1% total_mb:.0f "
            "against_mb:+.1%",
            _coruns,
        ),
    ),
    simulated=_simulated,
)
