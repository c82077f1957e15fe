"""The results as tables, for a terminal and for a page."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import fmean

from runtime.bench.contention_shown import contention_tables
from runtime.bench.memory_tables import memory_tables
from runtime.bench.qs import compared
from runtime.bench.results import Results, Row
from runtime.bench.shown import Shown, percent, with_spread
from runtime.bench.simulating import median_error
from runtime.issuing import Way
from runtime.stream.model_error import errors

_WAYS = {
    Way.QUEUE_STREAM: "Q-S",
    Way.MULTI_CONTEXT: "M-C",
    Way.SINGLE_CONTEXT: "S-C",
    Way.SINGLE_ISSUER: "1 issuer",
    Way.FORK_JOIN: "fork-join",
    Way.SERIAL: "serial",
}


def tables(results: Results) -> list[Shown]:
    """Of one experiment."""
    made: dict[str, Callable[[list[Row]], list[Shown]]] = {
        "qs": _qs,
        "coschedule": _coschedule,
        "decompose": _decompose,
        "simulator": _simulator,
        "optimum": _optimum,
        "contention": contention_tables,
        "memory": memory_tables,
        "predictor": _predictor,
        "stream": _stream,
    }
    return made[results.experiment](results.rows)


def _qs(rows: list[Row]) -> list[Shown]:
    against = [
        [
            row["workload"],
            row["mode"],
            f"{row['qs_ms']:.2f}",
            percent(row["against_mc"]),
            percent(row["published_mc"]),
            percent(row["against_sc"]),
            percent(row["published_sc"]),
            percent(row["against_single_issuer"]),
            percent(row["against_fork_join"]),
            percent(row["against_serial"]),
        ]
        for row in compared(rows)
    ]
    header = ["workload", "mode", "Q-S ms", "to M-C", "publ.", "to S-C", "publ."]
    groups = dict.fromkeys((row["workload"], row["mode"]) for row in rows)
    by_way = {(row["workload"], row["mode"], row["way"]): row for row in rows}
    times = [
        [
            *group,
            *(_cell(by_way.get((group[0], group[1], way.value))) for way in _WAYS),
            _bound(rows, group),
        ]
        for group in groups
    ]
    return [
        Shown(
            "Q-S against the others",
            [*header, "to 1 issuer", "to fork-join", "to serial"],
            against,
            2,
        ),
        Shown(
            "Makespan in ms: median, half the distance of the quartiles",
            ["workload", "mode", *_WAYS.values(), "bound"],
            times,
            2,
        ),
    ]


def _cell(row: Row | None) -> str:
    return "" if row is None else with_spread(row)


def _bound(rows: list[Row], group: tuple[str, str]) -> str:
    bounds = [
        row["bound_ms"]
        for row in rows
        if (row["workload"], row["mode"]) == group and row.get("bound_ms")
    ]
    return f"{bounds[0]:.2f}" if bounds else ""


def _coschedule(rows: list[Row]) -> list[Shown]:
    shown = []
    for workload, sms in dict.fromkeys((row["workload"], row.get("sms")) for row in rows):
        own = [row for row in rows if (row["workload"], row.get("sms")) == (workload, sms)]
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
                percent(row.get("against_gpu")),
                percent(row.get("above_sum_of_rates")),
                _number(row.get("finish_spread_ms")),
                _number(row.get("simulated_ms")),
                _number(row.get("bound_ms")),
            ]
            for row in own
        ]
        header = ["variant", "makespan ms", "to the strongest GPU", "above sum of rates"]
        shown.append(Shown(title, [*header, "finish spread", "simulated", "bound"], lines, 1))
    return shown


def _decompose(rows: list[Row]) -> list[Shown]:
    first: dict[tuple[str, str], float] = {}
    lines = []
    for row in rows:
        key = row["network"], row["mode"]
        if row.get("ms"):
            first.setdefault(key, row["ms"])
        gain = row["ms"] / first[key] - 1 if row.get("ms") else None
        lines.append([*key, row["rule"], str(row.get("jobs", "")), with_spread(row), percent(gain)])
    header = ["network", "mode", "rule", "jobs", "makespan ms", "to the first rule"]
    return [Shown("Q-S by the rule of cutting", header, lines, 3)]


def _simulator(rows: list[Row]) -> list[Shown]:
    error = median_error(rows)
    title = "Simulated against real makespan"
    if error is not None:
        without = median_error(rows, "error_without_issuer")
        title += f": median error {100 * error:.1f} %"
        title += "" if without is None else f", without the issuing thread {100 * without:.1f} %"
    lines = [
        [
            row["workload"],
            row["rule"],
            row["arrivals"],
            row["policy"],
            with_spread(row),
            f"{row['simulated_ms']:.2f}",
            percent(row["error_of_simulator"]),
            percent(row.get("error_without_issuer")),
            f"{row['bound_ms']:.2f}",
        ]
        for row in rows
    ]
    header = ["networks", "rule", "arrivals", "policy", "real ms", "simulated", "error"]
    return [Shown(title, [*header, "no issuer", "bound"], lines, 4)]


def _optimum(rows: list[Row]) -> list[Shown]:
    policies = [*dict.fromkeys(row["policy"] for row in rows)]
    lines = []
    for workload in dict.fromkeys(row["workload"] for row in rows):
        own = {row["policy"]: row for row in rows if row["workload"] == workload}
        best = next(iter(own.values()))
        cells = [_above(own[one]) if one in own else "" for one in policies]
        lines.append([workload, str(best["jobs"]), f"{best['optimum_ms']:.2f}", *cells])
    header = ["networks", "jobs", "optimum ms", *policies]
    title = "Above the best schedule (simulated, measured times); of many cases median, and worst"
    return [Shown(title, header, lines, 1)]


def _above(row: Row) -> str:
    worst = row.get("worst_above_optimum")
    return percent(row["above_optimum"]) + ("" if worst is None else f", {percent(worst)}")


def _predictor(rows: list[Row]) -> list[Shown]:
    judged = [row for row in rows if row["part"] == "accuracy"]
    means = []
    for on, split, fitted in dict.fromkeys((r["on"], r["split"], r["fit"]) for r in judged):
        own = [r for r in judged if (r["on"], r["split"], r["fit"]) == (on, split, fitted)]
        kinds = [r for r in own if r["kind"] != "all"]
        means.append(
            [
                *(on, split, fitted),
                *(_share(_mean(kinds, name)) for name in ("r2", "published_r2", "within_10")),
                _share(_mean(kinds, "published_within_tolerance")),
                *(_share(_mean(kinds, name)) for name in ("within_20", "mape")),
                _number(_mean(kinds, "tau")),
            ]
        )
    by_kind = [
        [
            *(row["on"], row["split"], row["kind"], row["fit"], str(row["layers"])),
            *(_share(row[name]) for name in ("r2", "within_10", "within_20", "mape")),
            _number(row["tau"]),
        ]
        for row in sorted(
            judged, key=lambda r: (r["on"], r["split"], r["kind"] == "all", r["kind"])
        )
    ]
    sums = [row for row in rows if row["part"] == "network"]
    fits = [*dict.fromkeys(row["fit"] for row in judged)]
    networks = [
        [
            *(row["on"], row["network"], str(row["jobs"]), f"{row['layers_ms']:.3f}"),
            *(percent(row[f"{one}_ms"] / row["layers_ms"] - 1) for one in fits),
        ]
        for row in sums
    ]
    choices = [
        [
            *(row["workload"], row["fit"], row["policy"], str(row["jobs"])),
            *(f"{row[name]:.3f}" for name in ("by_measured_ms", "by_predicted_ms")),
            percent(row["regret"]),
        ]
        for row in rows
        if row["part"] == "choice"
    ]
    rates = ["R2", "publ.", "within 10 %", "publ. tolerance", "within 20 %", "MAPE", "tau"]
    shown = [
        Shown(
            "Held-out layers, mean over kinds",
            ["times by", "held out", "fit", *rates],
            means,
            3,
        ),
        Shown(
            "Held-out layers by kind",
            [
                "times by",
                "held out",
                "kind",
                "fit",
                "layers",
                "R2",
                "within 10 %",
                "20 %",
                "MAPE",
                "tau",
            ],
            by_kind,
            4,
        ),
        Shown(
            "Networks by fits without their layers: sum of predictions to the sum of the layers",
            ["times by", "network", "layers", "ms", *fits],
            networks,
            2,
        ),
        Shown(
            "Lanes chosen by predicted times, makespan played with measured ones",
            ["networks", "fit", "policy", "jobs", "by measured ms", "by predicted", "regret"],
            choices,
            3,
        ),
    ]
    return [one for one in shown if one.rows]


def _mean(rows: list[Row], name: str) -> float | None:
    values = [row[name] for row in rows if row[name] is not None and math.isfinite(row[name])]
    return fmean(values) if values else None


def _share(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f}%"


def _stream(rows: list[Row]) -> list[Shown]:
    shown = []
    header = ["variant", "delay ms", "to resident", "plan MB", "all MB", "to 1x", "to 2x"]
    for network, batch, tier in dict.fromkeys(
        (row["network"], row["batch"], row["tier"]) for row in rows if row.get("weight_bytes")
    ):
        own = [row for row in rows if (row["network"], row["batch"]) == (network, batch)]
        lines = [
            [
                row["variant"],
                with_spread(row),
                percent(row.get("against_resident")),
                _megabytes(row.get("plan_bytes")),
                _megabytes(row.get("total_bytes")),
                percent(-row["saved"] if "saved" in row else None),
                percent(-row["saved_of_two"] if "saved_of_two" in row else None),
                _number(row.get("predicted_ms")),
                percent(row.get("error_of_model")),
                _number(row.get("bound_ms")),
                "" if "bit_exact" not in row else "yes" if row["bit_exact"] else "NO",
            ]
            for row in own
            if "variant" in row and (row["tier"] == tier or row["variant"].startswith("accel"))
        ]
        told = next((row for row in own if row.get("weight_bytes") and row["tier"] == tier), own[0])
        title = f"{network}, batch {batch}, from {tier}: {_megabytes(told['weight_bytes'])} MB"
        shown.append(Shown(title, [*header, "predicted", "error", "bound", "bit-exact"], lines, 1))
    shown += _streams_together([row for row in rows if "together" in row])
    tried = [row for row in rows if "configuration" in row]
    if tried:
        model = errors([row["predicted_ms"] for row in tried], [row["ms"] for row in tried])
        shares = (model.median, model.mean, model.p95, model.worst, model.bias)
        cells = [str(model.configurations), *(f"{100 * share:.2f}" for share in shares)]
        title = "Error of the model over random residents and rings, %"
        header = ["configurations", "median", "mean", "p95", "worst", "bias"]
        shown.append(Shown(title, header, [cells], 0))
    return shown


def _streams_together(rows: list[Row]) -> list[Shown]:
    shown = []
    header = [
        "network",
        "its MB",
        "deadline",
        "promised",
        "simulated",
        "delay ms",
        "missed",
        "exact",
    ]
    for budget in dict.fromkeys(row["budget_bytes"] for row in rows):
        own = [row for row in rows if row["budget_bytes"] == budget]
        lines = [
            [
                row["network"],
                _megabytes(row["share_bytes"]),
                _number(row["deadline_ms"]),
                _number(row["promised_ms"]),
                _number(row["simulated_ms"]),
                with_spread(row),
                f"{row['missed']} of {len(row['samples_ms'])}",
                "yes" if row["bit_exact"] else "NO",
            ]
            for row in own
        ]
        told = f"{own[0]['together']} in {_megabytes(budget)} MB, {own[0]['budget']:.0%} of weights"
        shown.append(Shown(f"Beside each other, from {own[0]['tier']}: {told}", header, lines, 1))
    return shown


def _megabytes(nbytes: float | None) -> str:
    return "" if nbytes is None else f"{nbytes / 1e6:.1f}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
