"""What a search found, as `summary.json` and as a table on the terminal.

docs/reference/files.md documents every field of the file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int64
from numpy import ndarray
from rich.console import Console
from rich.table import Table

from latency.base import LatencyOracle
from latency.devices.registry import tail_in_words
from latency.sources.mapped import MappedLatency
from nas.accuracy.base import Accuracy, Split
from nas.spaces.nas_bench_201.space import NAS_BENCH_201
from nas.spaces.nas_bench_201.training_length import FULL_EPOCHS
from nas.trials.confirmation import Candidate, winner
from nas.trials.limits import NO_FURTHER_LIMITS, Limits, cost_text, label_of
from nas.trials.survey import Landscape
from nas.trials.trajectory import WINDOW, best_feasible, sample_within_limit
from nas.trials.trial import Samples
from runtime.shell.atomic_file import replacing

SCHEMA = 1


def summarise(
    samples: Samples,
    mode: Int64[ndarray, "6"] | None,
    accuracy: Accuracy,
    oracle: LatencyOracle,
    landscape: Landscape | None,
    *,
    limit_ms: float,
    settings: dict[str, Any],
    seconds: float,
    resumed_at: int,
    confirmed: list[Candidate] | None = None,
    limits: Limits = NO_FURTHER_LIMITS,
) -> dict[str, Any]:
    """Every result of the run, ready for JSON; accuracies are fractions, times as named."""

    def entry(architecture: Int64[ndarray, "6"]) -> dict[str, Any]:
        return _entry(architecture, accuracy, oracle, landscape, limit_ms, limits=limits)

    met = limits.met(samples.architectures)
    best_at, again_ms = best_feasible(samples.accuracy, samples.latency_ms, limit_ms, met), None
    if confirmed is not None:
        best_again = winner(confirmed)
        best_at = None if best_again is None else best_again.sample
        again_ms = None if best_again is None else best_again.latency_again_ms
    best = None
    if best_at is not None:
        best = {
            **entry(samples.architectures[best_at]),
            **_declared(again_ms),
            "latency_first_ms": float(samples.latency_ms[best_at]),
            "sample": best_at + 1,
            "latency_again_ms": again_ms,
        }
    optimum_index = None if landscape is None else landscape.optimum
    optimum = None if optimum_index is None else entry(NAS_BENCH_201.rows[optimum_index])
    gap = None
    if best is not None and optimum is not None:
        gap = optimum["accuracy_searched"] - best["accuracy_searched"]
    indices = NAS_BENCH_201.numbers(samples.architectures)
    return {
        "schema": SCHEMA,
        **settings,
        "T_ms": limit_ms,
        **_further(limits, samples),
        "accuracy_source": accuracy.source,
        "accuracy_description": accuracy.description,
        "split": accuracy.split.value,
        "device": oracle.device,
        "latency_source": oracle.source,
        "latency_description": oracle.description,
        "samples": len(samples),
        "distinct_architectures": len(np.unique(indices)),
        "distinct_networks": len(np.unique(NAS_BENCH_201.network_class[indices])),
        "seconds": seconds,
        "resumed_at_sample": resumed_at,
        "best": best,
        "confirmation": None if confirmed is None else [_again(samples, one) for one in confirmed],
        "optimum": optimum,
        **_exactness(optimum_index, accuracy, oracle, landscape),
        "gap": gap,
        "feasible_share": float(((samples.latency_ms <= limit_ms) & met).mean()),
        "space_feasible_share": None if landscape is None else landscape.feasible_share,
        "sample_within_T": sample_within_limit(samples.latency_ms, limit_ms),
        "mode": entry(mode) if mode is not None and _is_known(mode, accuracy, oracle) else None,
    }


def _declared(again_ms: float | None) -> dict[str, Any]:
    """The answer of a device that was asked twice: its second, which no luck has chosen."""
    return {} if again_ms is None else {"latency_ms": again_ms, "latency_predicted": False}


def _exactness(
    optimum_index: int | None,
    accuracy: Accuracy,
    oracle: LatencyOracle,
    landscape: Landscape | None,
) -> dict[str, Any]:
    """Of the latencies of the space, the share that is predicted, and whether the optimum is exact.

    It is where no prediction can change it: where the latencies of itself and of all that are more
    accurate, and within the further limits, were measured.
    """
    if landscape is None:
        return {"space_latency_predicted": None, "optimum_exact": None}
    predicted = oracle.predicted(NAS_BENCH_201.rows)
    exact = None
    if optimum_index is not None:
        rivals = landscape.accuracy > landscape.accuracy[optimum_index]
        rivals[optimum_index] = True
        exact = accuracy.source != "surrogate" and not bool(
            (predicted & rivals & landscape.limits.all_met).any()
        )
    return {"space_latency_predicted": float(predicted.mean()), "optimum_exact": exact}


def optimum_name(summary: Mapping[str, Any]) -> str:
    """What the best of the whole space is called, by what is known of it."""
    if summary["accuracy_source"] == "surrogate" or summary["space_latency_predicted"] == 1:
        return "predicted optimum"
    return "partly predicted optimum" if summary["optimum_exact"] is False else "exact optimum"


def write_summary(path: Path, summary: dict[str, Any]) -> None:
    """Write the summary as JSON, atomically."""
    with replacing(path) as file:
        file.write((json.dumps(summary, indent=2) + "\n").encode())


def print_summary(console: Console, summary: dict[str, Any]) -> None:
    """The summary as a table, and what each row's architecture is."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    is_predicted = summary["accuracy_source"] == "surrogate"
    searched = "valid" if summary["split"] == Split.valid.value else "test, searched on"
    columns = [searched, "test"]
    if summary["epochs"] != FULL_EPOCHS:
        columns = [f"{searched} @{summary['epochs']} epochs", f"test @{FULL_EPOCHS} epochs"]
    if is_predicted:
        columns = [f"~{name}" for name in columns]
    optimum = optimum_name(summary)
    limits = summary.get("limits", {})
    label = label_of(limits)
    costs = [limit["cost"].removesuffix("_mj") for limit in limits.values()]
    for column in ("", *columns, "latency", *costs, "rank", "cell"):
        is_name = column == ""
        table.add_column(column, justify="left" if is_name else "right", overflow="fold")
    rows = {
        f"best within {label}": summary["best"],
        optimum: summary["optimum"],
        "policy's mode": summary["mode"],
    }
    for name, row in rows.items():
        if row is None:
            continue
        marked = "~" if row["latency_predicted"] else ""
        beyond = " > T" if row["latency_ms"] > summary["T_ms"] else ""
        table.add_row(
            name,
            f"{row['accuracy_searched']:.2%}",
            "-" if row["accuracy_test"] is None else f"{row['accuracy_test']:.2%}",
            f"{marked}{row['latency_ms']:.2f} ms{beyond}",
            *(_cost_cell(row, symbol, limit) for symbol, limit in limits.items()),
            "-" if row["rank"] is None else str(row["rank"]),
            str(row["index"]),
        )
    console.print(table)
    for line in _legend(summary, optimum):
        console.print(line, soft_wrap=True)
    _print_confirmation(console, summary)
    if summary["best"] is None and summary["confirmation"]:
        console.print(
            f"No network wins: no sample within T = {summary['T_ms']:g} ms was within it again; is the board "
            f"quiet, are its clocks fixed?",
            soft_wrap=True,
        )
    elif summary["best"] is None:
        met = f"T = {summary['T_ms']:g} ms" if not limits else label
        console.print(
            f"No network wins: no sample met {met}; raise {'T' if not limits else 'one'} or the budget.",
            soft_wrap=True,
        )
    else:
        _print_best(console, summary["best"])
    facts = [
        (
            f"{summary['samples']:,} samples of {summary['distinct_networks']:,} distinct "
            f"networks in {summary['seconds']:.1f} s"
        ),
        f"{summary['feasible_share']:.1%} of the samples within {label}",
        _settled(summary),
    ]
    if summary["gap"] is not None:
        facts.insert(0, f"gap to the {optimum} {summary['gap'] * 100:.2f} points")
    console.print("; ".join(facts), soft_wrap=True)


def _print_best(console: Console, best: dict[str, Any]) -> None:
    console.print(f"best cell {best['arch']}", soft_wrap=True)
    for on in best.get("on", ()):
        console.print(f"it {on_device(on)}", soft_wrap=True, markup=False)


def on_device(on: Mapping[str, Any]) -> str:
    """Whether a network fits on one of the devices of `latency=mapped`, in words."""
    fits = "fits" if on["fits"] else "does not fit"
    marked = "~" if on["latency_predicted"] else ""
    took = f"{marked}{on['latency_ms']:.3f} ms of T = {on['T_ms']:g} ms there"
    return f"{fits} on {on['device']}: {took}"


def _print_confirmation(console: Console, summary: dict[str, Any]) -> None:
    for one in summary["confirmation"] or ():
        within = "within T" if one["within_T"] else "not within T, so it does not win"
        console.print(
            f"timed again: cell {one['index']} {one['latency_ms']:.3f} ms, now "
            f"{_or_none(one['latency_again_ms'])}: {within}",
            soft_wrap=True,
        )


def _legend(summary: dict[str, Any], optimum: str) -> list[str]:
    """What must be known of the latencies and the predictions in the table."""
    words = tail_in_words(summary["device"])
    lines = [] if words is None else [words]
    rows = [summary[name] for name in ("best", "optimum", "mode") if summary[name] is not None]
    rows += (summary["best"] or {}).get("on", ())
    if summary["accuracy_source"] == "surrogate" or any(row["latency_predicted"] for row in rows):
        lines.append("~ predicted, not measured")
    if optimum == "partly predicted optimum":
        lines.append(
            f"the optimum and the ranks are among measured and predicted cells: of the space, "
            f"{summary['space_latency_predicted']:.1%} of the latencies are predicted"
        )
    return lines


def _settled(summary: dict[str, Any]) -> str:
    settled = summary["sample_within_T"]
    if settled is not None:
        return f"mean latency within T from sample {settled:,} on"
    if summary["samples"] < WINDOW:
        return f"it takes {WINDOW} samples to tell whether the mean latency settled within T"
    return "mean latency not settled within T"


def _again(samples: Samples, one: Candidate) -> dict[str, Any]:
    architecture = samples.architectures[one.sample]
    return {
        "arch": NAS_BENCH_201.text(architecture),
        "index": int(NAS_BENCH_201.numbers(architecture)),
        "sample": one.sample + 1,
        "accuracy_searched": float(samples.accuracy[one.sample]),
        "latency_ms": one.latency_ms,
        "latency_again_ms": None if np.isnan(one.latency_again_ms) else one.latency_again_ms,
        "within_T": one.within_limit,
    }


def _or_none(ms: float | None) -> str:
    return "none" if ms is None else f"{ms:.3f} ms"


def _cost_cell(row: dict[str, Any], symbol: str, limit: dict[str, Any]) -> str:
    cost = row[limit["cost"]]
    return cost_text(cost, limit["unit"]) + (f" > {symbol}" if cost > limit["limit"] else "")


def _further(limits: Limits, samples: Samples) -> dict[str, Any]:
    """`limits`, by symbol; nothing where T is the only one."""
    found = {}
    for limit in limits.each:
        costs = limit.of(samples.architectures)
        found[limit.symbol] = {
            "cost": limit.name,
            "unit": limit.unit,
            "limit": limit.bound,
            "source": limit.source,
            "feasible_share": float((costs <= limit.bound).mean()),
            "sample_within": sample_within_limit(costs, limit.bound),
        }
    return {"limits": found} if found else {}


def _is_known(architecture: Int64[ndarray, "6"], accuracy: Accuracy, oracle: LatencyOracle) -> bool:
    """Whether the sources have an answer; the mode need never have been sampled."""
    row = architecture[None]
    return bool(accuracy.known(row)[0] and oracle.known(row)[0])


def _on_each(row: Int64[ndarray, "1 6"], oracle: LatencyOracle) -> dict[str, Any]:
    """`on`, with `latency=mapped`: each device that could run it, the one with most room first."""
    if not isinstance(oracle, MappedLatency):
        return {}
    able = [one for one in oracle.devices if one.latency.known(row)[0]]
    found = [
        {
            "device": one.latency.device,
            "latency_ms": float(one.latency.latency_ms(row)[0]),
            "latency_predicted": bool(one.latency.predicted(row)[0]),
            "T_ms": one.ms,
            "fits": bool(one.latency.latency_ms(row)[0] <= one.ms),
        }
        for one in able
    ]
    return {"on": sorted(found, key=lambda one: one["latency_ms"] / one["T_ms"])}


def _entry(
    architecture: Int64[ndarray, "6"],
    accuracy: Accuracy,
    oracle: LatencyOracle,
    landscape: Landscape | None,
    limit_ms: float,
    *,
    limits: Limits,
) -> dict[str, Any]:
    row = architecture[None]
    searched = float(accuracy(row)[0])
    test = float(accuracy.test(row)[0])
    latency_ms = float(oracle.latency_ms(row)[0])
    feasible = latency_ms <= limit_ms and bool(limits.met(row)[0])
    return {
        "arch": NAS_BENCH_201.text(architecture),
        "index": int(NAS_BENCH_201.numbers(row)[0]),
        "accuracy_searched": searched,
        "accuracy_valid": searched if accuracy.split is Split.valid else None,
        "accuracy_test": None if np.isnan(test) else test,
        "latency_ms": latency_ms,
        **_on_each(row, oracle),
        **{limit.name: float(limit.of(row)[0]) for limit in limits.each},
        "accuracy_predicted": accuracy.source == "surrogate",
        "latency_predicted": bool(oracle.predicted(row)[0]),
        "feasible": feasible,
        "rank": landscape.rank(searched) if landscape is not None and feasible else None,
    }
