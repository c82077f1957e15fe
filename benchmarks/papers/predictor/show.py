"""Tables and figures of the predictor experiment."""

from __future__ import annotations

import math
from statistics import fmean

from benchmarks.papers.predictor.measure import worst_regret
from benchmarks.papers.results import Row, grouped
from benchmarks.papers.table_view import TableView, explained, number, percent, share
from benchmarks.papers.view import View
from common.page.chart import axes, diagonal, points
from common.page.document import KeyFigure
from common.page.parts import Figure

_R2 = (
    "R2 is the share of the spread of the times that a fit explains; below 0 it is further off than the "
    "mean of the times is. Where all of a kind take nearly the same, as layers do that take no longer "
    "than a launch, a small error is many times that spread; and the fit as printed, of absolute times, "
    "is off by more than the times themselves where they are short (MAPE)."
)


def _tables(rows: list[Row]) -> list[TableView]:
    judged = [row for row in rows if row["part"] == "accuracy"]
    means = []
    for (on, split, fitted), own in grouped(judged, "on", "split", "fit").items():
        kinds = [r for r in own if r["kind"] != "all"]
        means.append(
            [
                *(on, split, fitted),
                *(explained(_mean(kinds, name)) for name in ("r2", "published_r2")),
                share(_mean(kinds, "within_10")),
                share(_mean(kinds, "published_within_tolerance")),
                *(share(_mean(kinds, name)) for name in ("within_20", "mape")),
                number(_mean(kinds, "tau")),
            ]
        )
    by_kind = [
        [
            *(row["on"], row["split"], row["kind"], row["fit"], str(row["layers"])),
            explained(row["r2"]),
            *(share(row[name]) for name in ("within_10", "within_20", "mape")),
            number(row["tau"]),
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
        TableView(
            "Held-out layers, mean over kinds",
            ["times by", "held out", "fit", *rates],
            means,
            3,
            _R2,
        ),
        TableView(
            "Held-out layers by kind",
            [
                *("times by", "held out", "kind", "fit", "layers"),
                *("R2", "within 10 %", "20 %", "MAPE", "tau"),
            ],
            by_kind,
            4,
            _R2,
        ),
        TableView(
            "Networks by fits without their layers: sum of predictions to the sum of the layers",
            ["times by", "network", "layers", "ms", *fits],
            networks,
            2,
        ),
        TableView(
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


def _figures(rows: list[Row]) -> list[Figure]:
    """Predicted against measured times of held-out layers, one figure for each backend and fit."""
    figures = []
    layers = [row for row in rows if row["part"] == "layer"]
    for (on,), timed in grouped(layers, "on").items():
        for fitted in layers[0]["predicted_ms"]:
            own = [
                {"group": row["kind"].split()[0], "told": row["predicted_ms"][fitted], **row}
                for row in timed
                if (row["predicted_ms"][fitted] or 0) > 0
            ]
            if not own:
                continue
            times = [row["layer_ms"] for row in own]
            data = [diagonal(min(times), max(times))]
            data += [
                points(
                    group,
                    [row["layer_ms"] for row in alike],
                    [row["told"] for row in alike],
                    text=[row["kind"] for row in alike],
                )
                for (group,), alike in grouped(own, "group").items()
            ]
            layout = axes("measured ms", "predicted ms", log="xy")
            note = "By a fit of the other nine tenths; what was predicted negative is left out."
            figures.append(Figure(f"Layers by {on}: {fitted}", data, layout, note))
    return figures


def _key_figures(rows: list[Row]) -> list[KeyFigure]:
    worst = worst_regret(rows, "corrected")
    if worst is None:
        return []
    return [KeyFigure("regret of deciding by predicted times, at worst", percent(worst))]


PREDICTOR = View("Predicted times of layers", _tables, _figures, _key_figures)
