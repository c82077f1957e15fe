"""Tables and figures of the contention experiment."""

from __future__ import annotations

from typing import Any

from benchmarks.papers.contention.comparison import SPINNER, verdicts
from benchmarks.papers.contention.on_cpu import steps
from benchmarks.papers.experiment import (
    Chart,
    Experiment,
    Table,
    column,
    columns,
    decimals,
    names,
    number,
    part,
    text,
)
from benchmarks.papers.results import Row
from common.page.chart import axes, bars, line, points
from common.page.document import KeyFigure
from common.page.palette import GREY, SERIES

_P99 = "p99: 99 of 100 took no longer; of fewer than a hundred it is nearly the worst."
_IN_CACHE = "A spinner takes no bandwidth of the memory: what it stores stays in its cache."
_thousandths = decimals(".3f")
_error = decimals(".1%")


def _compared(rows: list[Row]) -> list[Row]:
    return [
        {
            "victim": verdict.victim,
            "unprotected": f"{verdict.unprotected['scenario']}: {verdict.unprotected[verdict.clock]:.3f}",
            "protected": f"{verdict.protected['scenario']}: {verdict.protected[verdict.clock]:.3f}",
            "stolen_gb_per_s": verdict.protected["stolen_gb_per_s"],
            "spinner": None if verdict.control is None else verdict.control[verdict.clock],
        }
        for verdict in verdicts(rows)
    ]


def _networks(rows: list[Row]) -> list[Row]:
    return [row for row in rows if "p99_ms" in row and "error" not in row]


def _pipelines(rows: list[Row]) -> list[Row]:
    return [{**row, "per_s": 1000 / row["ms"]} for row in part("pipeline")(rows)]


def _key_figures(rows: list[Row]) -> list[KeyFigure]:
    """Slowdown of each network, without and with a limit."""
    return [
        KeyFigure(
            f"{verdict.victim}: to solo, unprotected and protected",
            f"{verdict.unprotected[verdict.clock]:.2f} to {verdict.protected[verdict.clock]:.2f}",
            f"{verdict.unprotected['scenario']}; {verdict.protected['scenario']}, which leaves the hogs "
            f"{verdict.protected['stolen_gb_per_s']:.4g} of "
            f"{verdict.unprotected['stolen_gb_per_s']:.4g} GB/s",
        )
        for verdict in verdicts(rows)
    ]


def _curves(rows: list[Row]) -> list[dict[str, Any]]:
    data = []
    for colour, row in zip(SERIES, rows, strict=False):
        levels = sorted(zip(row["stolen_gb_per_s"], row["slowdown"], row["fitted"], strict=True))
        x, measured, fitted = zip(*levels, strict=True)
        victim = row["victim"]
        both = (
            points(victim, x, measured, color=colour),
            line(f"{victim}, fitted", x, fitted, color=colour, dash="dot"),
        )
        data += [{**trace, "legendgroup": victim} for trace in both]
    return data


def _tails(rows: list[Row]) -> list[dict[str, Any]]:
    shown = (("median", "ms", SERIES[0]), ("p99", "p99_ms", SERIES[1]), ("worst", "worst_ms", GREY))
    scenarios = [row["scenario"] for row in rows]
    return [
        bars(name, scenarios, [row[key] for row in rows], color=colour)
        for name, key, colour in shown
    ]


CONTENTION = Experiment(
    "contention",
    "Networks beside hogs of memory bandwidth",
    steps,
    tables=(
        Table(
            "Hogs alone (MB of 2^20 bytes, GB of 10^9)",
            (
                *(*names("hog"), *columns(text, hogs="hogs")),
                column(
                    "limit MB/s",
                    "limit_mb_per_s",
                    lambda limit: "none" if limit is None else f"{limit:,.0f}",
                ),
                column(
                    "achieved MB/s",
                    lambda row: None if row["hog"] == SPINNER else row["achieved_mb_per_s"],
                    decimals(",.1f"),
                ),
                column("GB/s", lambda row: None if row["hog"] == SPINNER else sum(row["gb_per_s"])),
            ),
            part("hogs"),
            note=_IN_CACHE,
        ),
        Table(
            "Latency to solo (on a CPU by processor time)",
            (
                *names(victim="network"),
                *columns(text, unprotected="unprotected", protected="protected"),
                *columns(_thousandths, stolen_gb_per_s="left to hogs GB/s", spinner="spinner"),
            ),
            _compared,
        ),
        Table(
            "{part}: {victim}, beside it hogs, and what they take of the memory",
            (
                *names("scenario"),
                *columns(_thousandths, ms="median ms", against_solo="to solo"),
                *columns(_thousandths, cpu_against_solo="CPU to solo", p99_ms="p99 ms"),
                *columns(_thousandths, worst_ms="worst ms"),
                *columns(decimals(".4g"), variance_ms2="variance ms2"),
                column(
                    "hogs GB/s",
                    lambda row: None if row["scenario"] == SPINNER else row["stolen_gb_per_s"],
                ),
                *columns(text, n="n"),
            ),
            _networks,
            by=("part", "victim"),
            note=_P99,
        ),
        Table(
            "Slowdown over stolen bandwidth b, fitted: 1 + a b / (1 - b / s)",
            (
                *(*names(victim="network"), *columns(decimals(".5f"), per_gb_per_s="a per GB/s")),
                *columns(decimals(".4g"), saturation_gb_per_s="s GB/s"),
                *columns(
                    _error,
                    median_held_out_error="held out, median",
                    largest_held_out_error="largest",
                ),
                column("levels", lambda row: len(row["slowdown"]), text),
            ),
            part("curve"),
        ),
        Table(
            "A picture prepared by the CPU, then the network: the coarse lock starves the first",
            (
                *(*names("scenario"), *columns(number, ms="ms a picture")),
                *columns(_thousandths, against_solo="to solo"),
                *columns(decimals("+.0%"), rate_against_corun="pictures/s to unprotected"),
                *columns(number, stolen_gb_per_s="hogs GB/s"),
            ),
            _pipelines,
        ),
        Table(
            "Taking and giving back a lock",
            (
                *(*names("lock"), *columns(text, held="hogs held")),
                *columns(decimals(".1f"), us="median us", low_us="quartile", p99_us="p99 us"),
            ),
            part("locks"),
            note=_P99,
        ),
    ),
    charts=(
        Chart(
            "Slowdown over stolen bandwidth",
            _curves,
            axes("stolen by all hogs, GB/s", "latency to solo"),
            part("curve"),
            caption="On a CPU the thread's own processor time, on a GPU the time on the wall; medians.",
        ),
        Chart(
            "Median, p99 and worst: {victim} ({part})",
            _tails,
            axes(y="ms", from_0="y", barmode="group"),
            lambda rows: [*part("network")(rows), *part("worst")(rows)],
            by=("part", "victim"),
        ),
        Chart(
            "The pipeline under the fine and under the coarse lock",
            lambda rows: [
                bars(
                    "pictures a second",
                    [row["scenario"] for row in rows],
                    [row["per_s"] for row in rows],
                    color=SERIES[0],
                )
            ],
            axes(y="pictures a second"),
            _pipelines,
        ),
    ),
    key_figures=_key_figures,
)
