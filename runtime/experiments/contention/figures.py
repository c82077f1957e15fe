"""Figures of the experiment with hogs."""

from __future__ import annotations

from typing import Any

from runtime.experiments.contention.verdict import verdicts
from runtime.page.document import KeyFigure
from runtime.page.palette import GREY, SERIES
from runtime.page.parts import Figure
from runtime.page.results import Row


def contention_figures(rows: list[Row]) -> list[Figure]:
    """Slowdown over stolen bandwidth, and over what is left to the others; tails; the pipeline."""
    known = [row for row in rows if "error" not in row]
    return [
        *_curves([row for row in known if row["part"] == "curve"]),
        *_tails([row for row in known if row["part"] in {"network", "worst"}]),
        *_pipeline([row for row in known if row["part"] == "pipeline"]),
    ]


def contention_key_figures(rows: list[Row]) -> list[KeyFigure]:
    """Of each network: what it loses, and what is left of that under a limit."""
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


def _curves(rows: list[Row]) -> list[Figure]:
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


def _tails(rows: list[Row]) -> list[Figure]:
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


def _pipeline(rows: list[Row]) -> list[Figure]:
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
