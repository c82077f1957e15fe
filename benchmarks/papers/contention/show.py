"""Tables and figures of the contention experiment."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.papers.contention.comparison import SPINNER, verdicts
from benchmarks.papers.results import Row, grouped
from benchmarks.papers.table_view import TableView
from benchmarks.papers.view import View
from common.page.chart import axes, bars, line, points
from common.page.document import KeyFigure
from common.page.palette import GREY, SERIES
from common.page.parts import Figure

_P99 = "p99: 99 of 100 took no longer; of fewer than a hundred it is nearly the worst."
_IN_CACHE = "A spinner takes no bandwidth of the memory: what it stores stays in its cache."


def _tables(rows: list[Row]) -> list[TableView]:
    """Tables of each measured part."""
    known = [row for row in rows if "error" not in row]
    return [
        *_hogs([row for row in known if row["part"] == "hogs"]),
        *_verdicts(known),
        *_networks([row for row in known if "p99_ms" in row]),
        *_curves([row for row in known if row["part"] == "curve"]),
        *_pipelines([row for row in known if row["part"] == "pipeline"]),
        *_locks([row for row in known if row["part"] == "locks"]),
    ]


def _hogs(rows: list[Row]) -> list[TableView]:
    lines = [
        [
            row["hog"],
            str(row["hogs"]),
            "none" if row["limit_mb_per_s"] is None else f"{row['limit_mb_per_s']:,.0f}",
            *_achieved(row),
        ]
        for row in rows
    ]
    header = ["hog", "hogs", "limit MB/s", "achieved MB/s", "GB/s"]
    title = "Hogs alone (MB of 2^20 bytes, GB of 10^9)"
    return [TableView(title, header, lines, 1, _IN_CACHE)] if rows else []


def _achieved(row: Row) -> list[str]:
    """Format a memory bandwidth in MB/s or GB/s."""
    if row["hog"] == SPINNER:
        return ["", ""]
    return [f"{row['achieved_mb_per_s']:,.1f}", f"{sum(row['gb_per_s']):.2f}"]


def _verdicts(rows: list[Row]) -> list[TableView]:
    lines = [
        [
            one.victim,
            f"{one.unprotected['scenario']}: {one.unprotected[one.clock]:.3f}",
            f"{one.protected['scenario']}: {one.protected[one.clock]:.3f}",
            f"{one.protected['stolen_gb_per_s']:.3f}",
            "" if one.control is None else f"{one.control[one.clock]:.3f}",
        ]
        for one in verdicts(rows)
    ]
    header = ["network", "unprotected", "protected", "left to hogs GB/s", "spinner"]
    title = "Latency to solo (on a CPU by processor time)"
    return [TableView(title, header, lines, 1)] if lines else []


def _networks(rows: list[Row]) -> list[TableView]:
    header = ["scenario", "median ms", "to solo", "CPU to solo", "p99 ms", "worst ms"]
    shown = []
    for (part, victim), own in grouped(rows, "part", "victim").items():
        columns = ("ms", "against_solo", "cpu_against_solo", "p99_ms", "worst_ms")
        lines = [
            [
                row["scenario"],
                *(f"{row[name]:.3f}" for name in columns),
                f"{row['variance_ms2']:.4g}",
                "" if row["scenario"] == SPINNER else f"{row['stolen_gb_per_s']:.2f}",
                str(row["n"]),
            ]
            for row in own
        ]
        title = f"{part}: {victim}, beside it hogs, and what they take of the memory"
        shown.append(TableView(title, [*header, "variance ms2", "hogs GB/s", "n"], lines, 1, _P99))
    return shown


def _curves(rows: list[Row]) -> list[TableView]:
    lines = [
        [
            row["victim"],
            f"{row['per_gb_per_s']:.5f}",
            f"{row['saturation_gb_per_s']:.4g}",
            f"{100 * row['median_held_out_error']:.1f} %",
            f"{100 * row['largest_held_out_error']:.1f} %",
            str(len(row["slowdown"])),
        ]
        for row in rows
    ]
    header = ["network", "a per GB/s", "s GB/s", "held out, median", "largest", "levels"]
    title = "Slowdown over stolen bandwidth b, fitted: 1 + a b / (1 - b / s)"
    return [TableView(title, header, lines, 1)] if rows else []


def _pipelines(rows: list[Row]) -> list[TableView]:
    lines = [
        [
            row["scenario"],
            f"{row['ms']:.2f}",
            f"{row['against_solo']:.3f}",
            f"{100 * row['rate_against_corun']:+.0f} %",
            f"{row['stolen_gb_per_s']:.2f}",
        ]
        for row in rows
    ]
    header = ["scenario", "ms a picture", "to solo", "pictures/s to unprotected", "hogs GB/s"]
    title = "A picture prepared by the CPU, then the network: the coarse lock starves the first"
    return [TableView(title, header, lines, 1)] if rows else []


def _locks(rows: list[Row]) -> list[TableView]:
    number: Callable[[float], str] = "{:.1f}".format
    lines = [
        [row["lock"], str(row["held"]), *(number(row[name]) for name in ("us", "low_us", "p99_us"))]
        for row in rows
    ]
    header = ["lock", "hogs held", "median us", "quartile", "p99 us"]
    return [TableView("Taking and giving back a lock", header, lines, 1, _P99)] if rows else []


def _figures(rows: list[Row]) -> list[Figure]:
    """Slowdown against stolen and against remaining bandwidth; tails; the pipeline."""
    known = [row for row in rows if "error" not in row]
    return [
        *_curve_figures([row for row in known if row["part"] == "curve"]),
        *_tail_figures([row for row in known if row["part"] in {"network", "worst"}]),
        *_pipeline_figures([row for row in known if row["part"] == "pipeline"]),
    ]


def _key_figures(rows: list[Row]) -> list[KeyFigure]:
    """Slowdown of each network, without and with a limit."""
    return [
        KeyFigure(
            f"{one.victim}: to solo, unprotected and protected",
            f"{one.unprotected[one.clock]:.2f} to {one.protected[one.clock]:.2f}",
            f"{one.unprotected['scenario']}; {one.protected['scenario']}, which leaves the hogs "
            f"{one.protected['stolen_gb_per_s']:.4g} of "
            f"{one.unprotected['stolen_gb_per_s']:.4g} GB/s",
        )
        for one in verdicts(rows)
    ]


def _curve_figures(rows: list[Row]) -> list[Figure]:
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
    layout = axes("stolen by all hogs, GB/s", "latency to solo")
    caption = "On a CPU the thread's own processor time, on a GPU the time on the wall; medians."
    return [Figure("Slowdown over stolen bandwidth", data, layout, caption)] if data else []


def _tail_figures(rows: list[Row]) -> list[Figure]:
    columns = {
        "median": ("ms", SERIES[0]),
        "p99": ("p99_ms", SERIES[1]),
        "worst": ("worst_ms", GREY),
    }
    figures = []
    for (part, victim), own in grouped(rows, "part", "victim").items():
        scenarios = [row["scenario"] for row in own]
        data = [
            bars(name, scenarios, [row[column] for row in own], color=colour)
            for name, (column, colour) in columns.items()
        ]
        layout = axes(y="ms", from_0="y", barmode="group")
        figures.append(Figure(f"Median, p99 and worst: {victim} ({part})", data, layout))
    return figures


def _pipeline_figures(rows: list[Row]) -> list[Figure]:
    rates = [1000 / row["ms"] for row in rows]
    data = [bars("pictures a second", [row["scenario"] for row in rows], rates, color=SERIES[0])]
    title = "The pipeline under the fine and under the coarse lock"
    return [Figure(title, data, axes(y="pictures a second"))] if rows else []


CONTENTION = View("Networks beside hogs of memory bandwidth", _tables, _figures, _key_figures)
