"""Charts of learning curves and tests. Bands are bootstrap 95 % intervals of medians."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64, Shaped
from numpy import ndarray

from edgenas_core.page.chart import limit
from edgenas_core.page.markup import chart_text
from edgenas_core.page.palette import INK, SERIES, band
from edgenas_core.page.parts import Figure
from nas.study.evaluation.learning_curve import LearningCurve, at_query, bin_means, bins_of
from nas.study.evaluation.statistics import median_intervals
from nas.trials.survey import pareto_front

POINTS = 40
"""Points of each line."""
_COLOURS = SERIES * 4

Curves = Mapping[str, LearningCurve]
"""Searches of one problem that a chart compares, by name."""


def progress_by_queries(curves: Curves, problem: str) -> Figure:
    """Gap, or best accuracy where the optimum is not known, by distinct architectures evaluated."""
    data = []
    first = next(iter(curves.values()))
    title, unit, described = (
        ("Gap", f"gap to the {first.optimum_name} (points)", f"missing to the {first.optimum_name}")
        if first.survey
        else ("Best accuracy", "accuracy of the best within T (%)", "of the best network")
    )
    for (name, curve), colour in zip(curves.items(), _COLOURS, strict=False):
        values, queries = curve.gap() if curve.survey else 100 * curve.best, curve.new.cumsum(1)
        last = int(np.median(queries[:, -1]))
        counts = np.unique(np.round(np.geomspace(1, last, POINTS)).astype(int))
        rows = np.stack([at_query(values, queries, count) for count in counts.tolist()])
        data += _band_traces(name, counts, rows, colour)
    return Figure(
        f"{title} by queries: {problem}",
        data,
        {
            "xaxis": {"type": "log", "title": {"text": "queries (distinct architectures)"}},
            "yaxis": {
                "title": {"text": unit},
                "rangemode": "tozero" if first.survey else "normal",
            },
        },
        f"Horizontal axis: queries. Median over seeds of the accuracy {described} within T.",
    )


def latency_by_bins(curves: Curves, problem: str, limit_ms: float) -> Figure:
    """Mean latency of 20 bins of samples against T: figure 5-2, below."""
    data = []
    for (name, curve), colour in zip(curves.items(), _COLOURS, strict=False):
        ends = np.array([samples[-1] + 1 for samples in bins_of(curve.log.index.shape[1])])
        data += _band_traces(name, ends, bin_means(curve.latency_ms).T, colour)
    label = {"xref": "paper", "x": 1, "y": limit_ms, "text": f"T = {limit_ms:g} ms"}
    label |= {"showarrow": False, "xanchor": "right", "yanchor": "bottom"}
    return Figure(
        f"Mean latency by samples: {problem}",
        data,
        {
            "xaxis": {"title": {"text": "samples"}, "rangemode": "tozero"},
            "yaxis": {"title": {"text": "latency (ms)"}},
            "shapes": [limit("y", limit_ms)],
            "annotations": [label],
        },
        "Horizontal axis: samples, in 20 bins. Median over seeds of each bin's mean.",
    )


def _band_traces(
    name: str, x: Shaped[ndarray, "points"], rows: Float64[ndarray, "points R"], colour: str
) -> list[Any]:
    """A line of medians, with their intervals as a band under the same entry of the legend."""
    intervals = median_intervals(rows)
    bounds = [
        interval.bounds for interval in intervals if interval.bounds
    ]  # all points have bounds, or none
    around = {"mode": "lines", "line": {"width": 0}, "showlegend": False, "hoverinfo": "skip"}
    around["legendgroup"] = name
    edges = [
        {"x": x, "y": [low for low, _ in bounds], **around},
        {
            "x": x,
            "y": [high for _, high in bounds],
            "fill": "tonexty",
            "fillcolor": band(colour),
            **around,
        },
    ]
    return [
        *(edges if bounds else []),
        {
            "x": x,
            "y": [i.middle for i in intervals],
            "name": chart_text(name),
            "mode": "lines",
            "line": {"color": colour, "width": 2},
            "legendgroup": name,
        },
    ]


def fronts(curves: Curves, problem: str, limit_ms: float) -> Figure:
    """Pareto front of the whole space, if it is known, and that of each name's median search."""
    first = next(iter(curves.values()))
    data, title = [], "Fronts found"
    if first.survey:
        title = f"Found and {first.front_name}"
        line = {"color": INK, "width": 1, "shape": "hv"}
        data.append(_front(first.front_name, first, first.survey.pareto_front) | {"line": line})
    for (name, curve), colour in zip(curves.items(), _COLOURS, strict=False):
        quality = curve.hypervolume_share() if curve.survey else curve.best[:, -1]
        median = int(np.argsort(quality, kind="stable")[len(quality) // 2])
        sampled = np.unique(curve.log.index[median]).astype(np.int64)
        answers = curve.answers
        front = sampled[pareto_front(answers.accuracy[sampled], answers.latency_ms[sampled])]
        marker = {"color": colour, "size": 6}
        data.append(_front(name, curve, front) | {"mode": "markers", "marker": marker})
    return Figure(
        f"{title}: {problem}",
        data,
        {
            "xaxis": {"title": {"text": "latency (ms)"}},
            "yaxis": {"title": {"text": "accuracy (%)"}},
            "shapes": [limit("x", limit_ms)],
        },
        f"After all samples. Dots: the architectures of the search whose "
        f"{'hypervolume' if first.survey else 'best accuracy'} is the median of the seeds; the dashed "
        f"line is T.",
    )


def _front(name: str, curve: LearningCurve, front: Int64[ndarray, "n"]) -> dict[str, Any]:
    return {
        "name": chart_text(name),
        "x": curve.answers.latency_ms[front],
        "y": 100 * curve.answers.accuracy[front],
        "text": [curve.text(number) for number in front.tolist()],
        "hovertemplate": "%{x:.2f} ms, %{y:.2f} %<br>%{text}",
        "mode": "lines",
    }
