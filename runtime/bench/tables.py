"""The results as tables, for a terminal and for a page."""

from __future__ import annotations

from collections.abc import Callable

from runtime.bench.contention_shown import contention_tables
from runtime.bench.qs import compared
from runtime.bench.results import Results, Row
from runtime.bench.shown import Shown
from runtime.bench.simulating import median_error
from runtime.issuing import Way

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
    }
    return made[results.experiment](results.rows)


def percent(value: float | None) -> str:
    """A relative difference; nothing where there is none."""
    return "" if value is None else f"{100 * value:+.1f}%"


def with_spread(row: Row) -> str:
    """Median, and half of what lies between the quartiles."""
    if not row.get("ms"):
        return "failed"
    return f"{row['ms']:.2f} \u00b1{50 * (row['high_ms'] - row['low_ms']) / row['ms']:.0f}%"


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
        title += f": median error {100 * error:.1f} %"
    lines = [
        [
            row["workload"],
            row["rule"],
            row["arrivals"],
            row["policy"],
            with_spread(row),
            f"{row['simulated_ms']:.2f}",
            percent(row["error_of_simulator"]),
            f"{row['bound_ms']:.2f}",
        ]
        for row in rows
    ]
    header = ["networks", "rule", "arrivals", "policy", "real ms", "simulated", "error", "bound"]
    return [Shown(title, header, lines, 4)]


def _optimum(rows: list[Row]) -> list[Shown]:
    policies = [*dict.fromkeys(row["policy"] for row in rows)]
    lines = []
    for workload in dict.fromkeys(row["workload"] for row in rows):
        own = {row["policy"]: row for row in rows if row["workload"] == workload}
        best = next(iter(own.values()))
        cells = [percent(own[one]["above_optimum"]) if one in own else "" for one in policies]
        lines.append([workload, str(best["jobs"]), f"{best['optimum_ms']:.2f}", *cells])
    header = ["networks", "jobs", "optimum ms", *policies]
    return [Shown("Above the best schedule (simulated, measured times)", header, lines, 1)]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
