"""Tables and figures of the contention experiment."""

from __future__ import annotations

from benchmarks.papers.contention.on_cpu import steps
from benchmarks.papers.contention.rows import SPINNER
from benchmarks.papers.experiment import (
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

_P99 = "p99: 99 of 100 took no longer; of fewer than a hundred it is nearly the worst."
_IN_CACHE = "A spinner takes no bandwidth of the memory: what it stores stays in its cache."
_thousandths = decimals(".3f")
_error = decimals(".1%")


def _networks(rows: list[Row]) -> list[Row]:
    return [row for row in rows if "p99_ms" in row and "error" not in row]


def _pipelines(rows: list[Row]) -> list[Row]:
    return [{**row, "per_s": 1000 / row["ms"]} for row in part("pipeline")(rows)]


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
)
