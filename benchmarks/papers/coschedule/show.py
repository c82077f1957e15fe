"""Tables and figures of the co-scheduling experiment."""

from __future__ import annotations

from benchmarks.papers.results import Row, grouped
from benchmarks.papers.table_view import (
    SHARING,
    TableView,
    number,
    percent,
    sharing_cells,
    with_spread,
)
from benchmarks.papers.view import View
from common.page.chart import axes, line, points
from common.page.document import KeyFigure
from common.page.palette import GREY, SERIES
from common.page.parts import Figure

_POLICIES = {"queue_time", "earliest_finish"}


def _tables(rows: list[Row]) -> list[TableView]:
    shown = []
    for (workload, sms), own in grouped(rows, "workload", "sms").items():
        known = [row for row in own if row.get("ms")]
        if not known:
            continue
        where = f"{known[0]['gpu_lanes']} + {known[0]['cpu_lanes']} lanes"
        if sms is not None:
            where += f", {sms} SMs"
        title = (
            f"{workload}, {where}: the CPU's rate is {known[0]['cpu_to_gpu_rate']:.2f} of the GPU's, "
            f"bound by the sum of rates {known[0]['sum_of_rates_ms']:.2f} ms "
            f"({percent(known[0]['bound_against_gpu'])})"
        )
        lines = [
            [
                row["variant"],
                with_spread(row),
                *(percent(row.get(name)) for name in ("against_gpu", "above_sum_of_rates")),
                *(
                    number(row.get(f"{name}_ms"))
                    for name in ("finish_spread", "simulated", "bound")
                ),
            ]
            for row in own
        ]
        header = ["variant", "makespan ms", "to the strongest GPU", "above sum of rates"]
        shown.append(
            TableView(
                title,
                [*header, "finish spread ms", "simulated ms", "least by times alone, ms"],
                lines,
                1,
            )
        )
        shared = [
            [row["variant"], number(row.get("overlap")), *sharing_cells(row)]
            for row in known
            if "stp" in row
        ]
        if shared:
            title = f"{workload}, {where}: how it is shared; overlap to the stronger device alone"
            shown.append(TableView(title, ["variant", "overlap", *SHARING], shared, 1))
    return shown


def _figures(rows: list[Row]) -> list[Figure]:
    """Gain over the fastest use of the GPU alone against the relative speed of the CPU, with its bound."""
    known = [row for row in rows if row.get("ms") and not row["variant"].startswith(("gpu", "cpu"))]
    if not known:
        return []
    most = max(row["cpu_to_gpu_rate"] for row in known)
    ratios = [i / 40 * max(most, 1) for i in range(41)]
    bound = [100 * (1 / (1 + ratio) - 1) for ratio in ratios]
    data = [line("bound: sum of rates", ratios, bound, dash="dot", color=GREY)]
    data += [
        points(
            variant.replace("_", " "),
            [row["cpu_to_gpu_rate"] for row in own],
            [100 * row["against_gpu"] for row in own],
            text=[f"{row['workload']}, {row['sms'] or 'all'} SMs" for row in own],
            color=colour,
        )
        for colour, ((variant,), own) in zip(
            SERIES, grouped(known, "variant").items(), strict=False
        )
    ]
    layout = axes("the CPU's rate over the GPU's", "makespan to the strongest GPU alone, %")
    return [Figure("Makespan of CPU and GPU together", data, layout)]


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


COSCHEDULE = View("CPU and GPU together", _tables, _figures, _key_figures, stands_in_for_gpu=True)
