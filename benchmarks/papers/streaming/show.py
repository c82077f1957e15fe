"""Tables and figures of the weight-streaming experiment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import final

import numpy as np

from benchmarks.papers.results import Row, grouped
from benchmarks.papers.table_view import TableView, megabytes, number, percent, with_spread
from benchmarks.papers.view import View
from common.page.chart import axes, line, points
from common.page.palette import BLUE, GREEN, GREY, GROUND, OLIVE, ORANGE, PURPLE, VERMILLION
from common.page.parts import Figure

_COLUMNS = (
    "To resident: the delay over that of preload, whose weights are all in memory. Plan MB: rings and "
    "resident layers; all MB: with what else keeps weights in memory, as the tier and the page cache. "
    "To 1x and to 2x: all MB over the weights, and over two copies of them, one in host and one in "
    "device memory, which the source counts for preload. Exact: every output was the resident "
    "network's, bit for bit."
)
_PREDICTED = (
    "Predicted, and its error over the delay: by the recurrence, from the times of a profile. Bound: the "
    "same with rings as large as the network. First ms: an inference from empty rings, with its "
    "own prediction."
)
_CAPTION = (
    "Planned ones go on into the next inference, and are measured behind another; all others "
    "begin with empty rings, as the planned ones' first inference does (`first ms` in the table). "
    "What the tier itself keeps in memory is in the table. Dotted is the sum of the kernels' "
    "times in the profile, which a machine that was less busy afterwards can go below."
)
_OFFLOADED = " accelerate's memory was not measured: its delay is drawn across."

_MARKS = {
    "preload": (BLUE, "circle"),
    "synchronous": (VERMILLION, "square"),
    "asynchronous": (PURPLE, "x"),
    "zero-copy": (ORANGE, "cross"),
}
"""Colours and symbols of the source's architectures; our plans have other symbols."""

_OF_PLANS = (
    *("star", "triangle-down", "diamond", "triangle-up"),
    *("hexagram", "pentagon", "triangle-right"),
)
_DASHES = ("dash", "dashdot", "longdash", "longdashdot")


def _tables(rows: list[Row]) -> list[TableView]:
    shown = []
    for network, batch, tier in dict.fromkeys(
        (row["network"], row["batch"], row["tier"]) for row in rows if row.get("weight_bytes")
    ):
        own = [row for row in rows if (row["network"], row["batch"]) == (network, batch)]
        variants = [
            row
            for row in own
            if "variant" in row and (row["tier"] == tier or row["variant"].startswith("accel"))
        ]
        told = next((row for row in own if row.get("weight_bytes") and row["tier"] == tier), own[0])
        title = f"{network}, batch {batch}, from {tier}: {megabytes(told['weight_bytes'])} MB"
        shown += [_measured(title, variants), *_predictions(title, variants)]
    shown += _streams_together([row for row in rows if "together" in row])
    tried = [row for row in rows if "configuration" in row]
    if tried:
        shown.append(_model_errors(tried))
    return shown


def _measured(title: str, rows: list[Row]) -> TableView:
    header = ["variant", "delay ms", "to resident", "plan MB", "all MB", "to 1x", "to 2x", "exact"]
    lines = [
        [
            row["variant"],
            with_spread(row),
            percent(row.get("against_resident")),
            *(megabytes(row.get(name)) for name in ("plan_bytes", "total_bytes")),
            *(percent(-row[name] if name in row else None) for name in ("saved", "saved_of_two")),
            "" if "bit_exact" not in row else "yes" if row["bit_exact"] else "NO",
        ]
        for row in rows
    ]
    return TableView(title, header, lines, 1, _COLUMNS)


def _predictions(title: str, rows: list[Row]) -> Iterator[TableView]:
    """Tables of the predictions; none if nothing was predicted."""
    header = ["variant", "delay ms", "predicted", "error", "bound", "first ms", "its prediction"]
    lines = [
        [
            row["variant"],
            with_spread(row),
            number(row["predicted_ms"]),
            percent(row.get("error_of_model")),
            *(number(row.get(name)) for name in ("bound_ms", "first_ms", "predicted_first_ms")),
        ]
        for row in rows
        if "predicted_ms" in row
    ]
    if lines:
        yield TableView(f"Predicted: {title}", header, lines, 1, _PREDICTED)


def _model_errors(tried: list[Row]) -> TableView:
    """Model error over all configurations, and for each tier and network."""
    groups = {"all": tried}
    for row in tried:
        groups.setdefault(f"from {row['tier']}", []).append(row)
        name = f"{row['network']}, batch {row['batch']}, from {row['tier']}"
        groups.setdefault(name, []).append(row)
    lines = []
    for name, own in groups.items():
        model = model_error([row["predicted_ms"] for row in own], [row["ms"] for row in own])
        shares = (model.median, model.mean, model.p95, model.worst, model.bias)
        lines.append([name, str(model.configurations), *(f"{100 * share:.2f}" for share in shares)])
    title = "Error of the model over random residents and rings, inferences in a row, %"
    header = ["of", "configurations", "median", "mean", "p95", "worst", "bias"]
    note = "p95: 95 of 100 configurations are no further off."
    return TableView(title, header, lines, 1, note)


def _streams_together(rows: list[Row]) -> list[TableView]:
    shown = []
    header = ["network", "its MB", "deadline", "promised", "simulated", "delay ms", "missed"]
    for (budget,), own in grouped(rows, "budget_bytes").items():
        lines = [
            [
                row["network"],
                megabytes(row["share_bytes"]),
                *(number(row[name]) for name in ("deadline_ms", "promised_ms", "simulated_ms")),
                with_spread(row),
                f"{row['missed']} of {len(row['samples_ms'])}",
                "yes" if row["bit_exact"] else "NO",
            ]
            for row in own
        ]
        told = f"{own[0]['together']} in {megabytes(budget)} MB, {own[0]['budget']:.0%} of weights"
        shown.append(
            TableView(
                f"Beside each other, from {own[0]['tier']}: {told}", [*header, "exact"], lines, 1
            )
        )
    return shown


def _figures(rows: list[Row]) -> list[Figure]:
    """For each network the measurements, the planned Pareto front, and offloading."""
    figures = []
    for front in (row for row in rows if "front" in row):
        network, batch, tier = front["network"], front["batch"], front["tier"]
        own = [row for row in rows if (row.get("network"), row.get("batch")) == (network, batch)]
        data = [
            line(
                "planned (predicted)",
                [nbytes / 1e6 for nbytes, _ in front["front"]],
                [ms for _, ms in front["front"]],
                shape="hv",
                color=GREY,
            )
        ]
        across = [0, front["weight_bytes"] / 1e6]
        kernels_ms = [front["kernels_ms"]] * 2
        data.append(
            line("the kernels' sum, as profiled", across, kernels_ms, dash="dot", color=GREY)
        )
        symbols = cycle(_OF_PLANS)
        for row in own:
            if row["tier"] == tier and row.get("plan_bytes") is not None:
                colour, symbol = _MARKS.get(row["variant"]) or (GREEN, next(symbols))
                edge = {"color": GROUND, "width": 1}
                x, y = [row["plan_bytes"] / 1e6], [row["ms"]]
                mark = points(row["variant"], x, y, color=colour, symbol=symbol, size=12, line=edge)
                data.append(mark)
        offloaded = [
            row for row in own if row.get("ms") and row.get("variant", "").startswith("accelerate")
        ]
        data += [
            line(row["variant"], across, [row["ms"]] * 2, dash=dash, color=OLIVE)
            for row, dash in zip(offloaded, cycle(_DASHES), strict=False)
        ]
        figures.append(
            Figure(
                f"Memory and delay: {network}, batch {batch}, weights from {tier}",
                data,
                axes("MB of rings and residents", "delay in ms", log="y"),
                _CAPTION + (_OFFLOADED if offloaded else ""),
            )
        )
    return figures


STREAM = View("Networks larger than their memory", _tables, _figures)


@final
@dataclass(frozen=True)
class ModelError:
    """Distribution of the relative error, `|predicted - measured| / measured`."""

    configurations: int
    median: float
    mean: float
    p95: float
    worst: float
    bias: float
    """Median of `predicted / measured - 1`; negative if predictions are too fast."""


def model_error(predicted_ms: Sequence[float], measured_ms: Sequence[float]) -> ModelError:
    """Compare predicted with measured makespans, pair by pair.

    Raises:
      ValueError: if there are none, or a measured makespan is not positive.
    """
    if not measured_ms or not all(0 < one < float("inf") for one in measured_ms):
        raise ValueError(f"measured makespans must be positive, not {list(measured_ms)[:5]}")
    relative = np.asarray(predicted_ms) / np.asarray(measured_ms) - 1
    sizes = np.abs(relative)
    return ModelError(
        len(sizes),
        float(np.median(sizes)),
        float(sizes.mean()),
        float(np.percentile(sizes, 95)),
        float(sizes.max()),
        float(np.median(relative)),
    )
