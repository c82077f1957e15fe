"""Tables and figures of the co-scheduling experiment."""

from __future__ import annotations

from typing import Any

from benchmarks.papers.coschedule.policies import steps
from benchmarks.papers.experiment import (
    SHARING,
    Chart,
    Experiment,
    Table,
    columns,
    having,
    names,
    number,
    percent,
    spread,
)
from benchmarks.papers.results import Row, grouped
from common.page.chart import axes, line, points
from common.page.document import KeyFigure
from common.page.palette import GREY, SERIES

_POLICIES = {"queue_time", "earliest_finish"}


def _where(rows: list[Row]) -> str:
    one = rows[0]
    sms = "" if one["sms"] is None else f", {one['sms']} SMs"
    return f"{one['workload']}, {one['gpu_lanes']} + {one['cpu_lanes']} lanes{sms}"


def _title(rows: list[Row]) -> str:
    one = next(row for row in rows if row.get("ms"))
    return (
        f"{_where([one])}: the CPU's rate is {one['cpu_to_gpu_rate']:.2f} of the GPU's, "
        f"bound by the sum of rates {one['sum_of_rates_ms']:.2f} ms "
        f"({percent(one['bound_against_gpu'])})"
    )


def _measured(rows: list[Row]) -> list[Row]:
    """Rows of the workloads and slices of which anything was measured."""
    groups = grouped(rows, "workload", "sms").values()
    return [row for group in groups if any(one.get("ms") for one in group) for row in group]


def _together(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row.get("ms") and not row["variant"].startswith(("gpu", "cpu"))]


def _gains(rows: list[Row]) -> list[dict[str, Any]]:
    """Gain over the fastest use of the GPU alone against the relative speed of the CPU, with its bound."""
    most = max(row["cpu_to_gpu_rate"] for row in rows)
    ratios = [i / 40 * max(most, 1) for i in range(41)]
    bound = [100 * (1 / (1 + ratio) - 1) for ratio in ratios]
    return [
        line("bound: sum of rates", ratios, bound, dash="dot", color=GREY),
        *(
            points(
                variant.replace("_", " "),
                [row["cpu_to_gpu_rate"] for row in group],
                [100 * row["against_gpu"] for row in group],
                text=[f"{row['workload']}, {row['sms'] or 'all'} SMs" for row in group],
                color=colour,
            )
            for colour, ((variant,), group) in zip(
                SERIES, grouped(rows, "variant").items(), strict=False
            )
        ),
    ]


def _key_figures(rows: list[Row]) -> list[KeyFigure]:
    known = (row for row in rows if row.get("ms"))
    by_policy = [row for row in known if row["variant"].removeprefix("planned_") in _POLICIES]
    if not by_policy:
        return []
    best = min(by_policy, key=lambda row: float(row["against_gpu"]))
    return [
        KeyFigure(
            "to the strongest GPU alone, at best",
            percent(best["against_gpu"]),
            f"{best['workload']}, {best['variant']}; bound {percent(best['bound_against_gpu'])}",
        )
    ]


COSCHEDULE = Experiment(
    "coschedule",
    "CPU and GPU together",
    steps,
    tables=(
        Table(
            _title,
            (
                *(*names("variant"), spread("makespan ms")),
                *columns(
                    percent,
                    against_gpu="to the strongest GPU",
                    above_sum_of_rates="above sum of rates",
                ),
                *columns(
                    number,
                    finish_spread_ms="finish spread ms",
                    simulated_ms="simulated ms",
                    bound_ms="least by times alone, ms",
                ),
            ),
            _measured,
            by=("workload", "sms"),
        ),
        Table(
            lambda rows: f"{_where(rows)}: how it is shared; overlap to the stronger device alone",
            (*names("variant"), *columns(number, overlap="overlap"), *SHARING),
            having("ms", "stp"),
            by=("workload", "sms"),
        ),
    ),
    charts=(
        Chart(
            "Makespan of CPU and GPU together",
            _gains,
            axes("the CPU's rate over the GPU's", "makespan to the strongest GPU alone, %"),
            _together,
        ),
    ),
    key_figures=_key_figures,
    stands_in_for_gpu=True,
)
