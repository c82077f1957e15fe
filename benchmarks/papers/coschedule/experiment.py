"""Tables and figures of the co-scheduling experiment."""

from __future__ import annotations

from benchmarks.papers.coschedule.policies import steps
from benchmarks.papers.experiment import (
    Experiment,
    Table,
    columns,
    names,
    number,
    percent,
    spread,
)
from benchmarks.papers.results import Row, grouped


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
                    overlap="overlap",
                    finish_spread_ms="finish spread ms",
                    simulated_ms="simulated ms",
                    bound_ms="least by times alone, ms",
                ),
            ),
            _measured,
            by=("workload", "sms"),
        ),
    ),
    stands_in_for_gpu=True,
)
