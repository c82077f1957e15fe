"""Tables and figures of the contention experiment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runtime.experiments.contention.comparison import SPINNER, verdicts
from runtime.page.document import KeyFigure
from runtime.page.palette import GREY, SERIES
from runtime.page.parts import Figure
from runtime.page.results import Row
from runtime.page.table_view import TableView
from runtime.page.view import View

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
    header = [
        "scenario",
        "median ms",
        "to solo",
        "CPU to solo",
        "p99 ms",
        "worst ms",
        "variance ms2",
    ]
    shown = []
    for part, victim in dict.fromkeys((row["part"], row["victim"]) for row in rows):
        own = [row for row in rows if (row["part"], row["victim"]) == (part, victim)]
        lines = [
            [
                row["scenario"],
                f"{row['ms']:.3f}",
                f"{row['against_solo']:.3f}",
                f"{row['cpu_against_solo']:.3f}",
                f"{row['p99_ms']:.3f}",
                f"{row['worst_ms']:.3f}",
                f"{row['variance_ms2']:.4g}",
                "" if row["scenario"] == SPINNER else f"{row['stolen_gb_per_s']:.2f}",
                str(row["n"]),
            ]
            for row in own
        ]
        title = f"{part}: {victim}, beside it hogs, and what they take of the memory"
        shown.append(TableView(title, [*header, "hogs GB/s", "n"], lines, 1, _P99))
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
    if not rows:
        return []
    data: list[dict[str, Any]] = []
    for colour, row in zip(SERIES, rows, strict=False):
        points = sorted(zip(row["stolen_gb_per_s"], row["slowdown"], row["fitted"], strict=True))
        x, measured, fitted = zip(*points, strict=True)
        shared = {"type": "scatter", "x": x, "legendgroup": row["victim"]}
        data += [
            {
                **shared,
                "mode": "markers",
                "name": row["victim"],
                "y": measured,
                "marker": {"color": colour},
            },
            {
                **shared,
                "mode": "lines",
                "name": f"{row['victim']}, fitted",
                "y": fitted,
                "line": {"color": colour, "dash": "dot"},
            },
        ]
    layout = {
        "xaxis": {"title": {"text": "stolen by all hogs, GB/s"}},
        "yaxis": {"title": {"text": "latency to solo"}},
    }
    caption = "On a CPU the thread's own processor time, on a GPU the time on the wall; medians."
    return [Figure("Slowdown over stolen bandwidth", data, layout, caption)]


def _tail_figures(rows: list[Row]) -> list[Figure]:
    figures = []
    for part, victim in dict.fromkeys((row["part"], row["victim"]) for row in rows):
        own = [row for row in rows if (row["part"], row["victim"]) == (part, victim)]
        data = [
            {
                "type": "bar",
                "name": name,
                "x": [row["scenario"] for row in own],
                "y": [row[column] for row in own],
                "marker": {"color": colour},
            }
            for colour, (name, column) in zip(
                (*SERIES[:2], GREY),
                (("median", "ms"), ("p99", "p99_ms"), ("worst", "worst_ms")),
                strict=True,
            )
        ]
        layout = {"barmode": "group", "yaxis": {"title": {"text": "ms"}, "rangemode": "tozero"}}
        figures.append(Figure(f"Median, p99 and worst: {victim} ({part})", data, layout))
    return figures


def _pipeline_figures(rows: list[Row]) -> list[Figure]:
    if not rows:
        return []
    data = [
        {
            "type": "bar",
            "x": [row["scenario"] for row in rows],
            "y": [1000 / row["ms"] for row in rows],
            "marker": {"color": SERIES[0]},
        }
    ]
    layout = {"yaxis": {"title": {"text": "pictures a second"}}}
    return [Figure("The pipeline under the fine and under the coarse lock", data, layout)]


CONTENTION = View(
    "Networks beside hogs of memory bandwidth",
    _tables,
    _figures,
    _key_figures,
)
