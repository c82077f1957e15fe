"""Latency against its limit, and accuracy, over the samples: means and bands of bins."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from common.page.palette import BLUE, GREEN, GREY, INK, VERMILLION, band
from common.page.parts import Columns, Figure
from nas.report.wording import Wording, percent
from nas.trials.survey import Survey
from nas.trials.trajectory import BAND, bin_edges
from nas.trials.trial import Trials

_SHARE = percent(BAND, 0)
FEW = 200
"""So few samples are drawn one by one as well."""


def convergence(
    done: Trials,
    feasible: Bool[ndarray, "n"],
    survey: Survey | None,
    limit_ms: float,
    wording: Wording,
) -> Columns:
    """Both figures, side by side."""
    edges = bin_edges(len(done))
    return Columns(
        [
            _latency(done, edges, limit_ms, wording),
            _accuracy(done, feasible, edges, survey, wording),
        ]
    )


def _in_bins(edges: Int64[ndarray, "bins_and_1"]) -> str:
    sizes = np.diff(edges)
    least, most = sizes.min(), sizes.max()
    size = f"{least:,}" if least == most else f"{least:,} or {most:,}"
    return (
        f"{len(sizes)} bins of {size} samples" if len(sizes) > 1 else f"one bin of {size} samples"
    )


def _latency(
    done: Trials, edges: Int64[ndarray, "bins_and_1"], limit_ms: float, wording: Wording
) -> Figure:
    traces = _banded(done.latency_ms, edges, BLUE, "ms")
    traces.append(_level(len(done), limit_ms, wording.limit, VERMILLION, "ms"))
    return Figure(
        "Latency against its limit",
        traces,
        _layout(wording.latency_axis, len(done)),
        f"Mean of {_in_bins(edges)}; the band holds the middle {_SHARE} of a bin's samples.",
    )


def _accuracy(
    done: Trials,
    feasible: Bool[ndarray, "n"],
    edges: Int64[ndarray, "bins_and_1"],
    survey: Survey | None,
    wording: Wording,
) -> Figure:
    shown = done.accuracy * 100
    traces = _banded(shown, edges, BLUE, "%")
    within = np.where(feasible, shown, -np.inf)
    best = np.maximum.accumulate(within)
    rises = np.flatnonzero(best > np.concatenate([[-np.inf], best[:-1]]))
    if len(rises):
        at = np.append(rises, len(done) - 1)
        traces.append(
            {
                "x": at + 1,
                "y": best[at],
                "mode": "lines",
                "line": {"color": GREEN, "width": 2, "shape": "hv"},
                "name": f"best within {wording.label} so far",
                "hovertemplate": "%{y:.2f} % from sample %{x:,}",
            }
        )
    if survey is not None and survey.optimum is not None:
        optimum = float(survey.accuracy[survey.optimum]) * 100
        traces.append(
            _level(len(done), optimum, f"{wording.optimum} within {wording.label}", INK, "%")
        )
    return Figure(
        f"Accuracy of what is sampled, and the best within {wording.label}",
        traces,
        _layout(wording.accuracy_axis, len(done)),
        f"Mean and middle {_SHARE} of {_in_bins(edges)}. The best so far counts only samples within {wording.label}.",
    )


def _banded(
    values: Float64[ndarray, "n"], edges: Int64[ndarray, "bins_and_1"], colour: str, unit: str
) -> list[dict[str, Any]]:
    bins = [values[a:b] for a, b in pairwise(edges)]
    low, high = np.array([np.quantile(one, [(1 - BAND) / 2, (1 + BAND) / 2]) for one in bins]).T
    middles = (edges[:-1] + 1 + edges[1:]) / 2
    span = [f"samples {a + 1:,} to {b:,}" for a, b in pairwise(edges)]
    traces: list[dict[str, Any]] = []
    if len(values) <= FEW:
        traces.append(
            {
                "x": np.arange(1, len(values) + 1),
                "y": values,
                "mode": "markers",
                "marker": {"color": GREY, "size": 4},
                "name": "each sample",
                "hovertemplate": f"%{{y:.2f}} {unit}, sample %{{x:,}}<extra></extra>",
            }
        )
    ends = [0, *range(len(bins)), -1]  # the first and the last bin reach the ends
    whole = np.concatenate([[1.0], middles, [float(len(values))]])
    edge = {"x": whole, "mode": "lines", "line": {"width": 0}, "hoverinfo": "skip"}
    traces += [
        {**edge, "y": low[ends], "showlegend": False},
        {
            **edge,
            "y": high[ends],
            "fill": "tonexty",
            "fillcolor": band(colour),
            "name": f"middle {_SHARE} of the samples",
        },
        {
            "x": middles,
            "y": np.array([one.mean() for one in bins]),
            "customdata": [list(row) for row in zip(low, high, span, strict=True)],
            "mode": "lines" if len(bins) > 2 else "lines+markers",
            "line": {"color": colour, "width": 2},
            "name": "mean",
            "hovertemplate": (
                f"%{{customdata[2]}}<br>mean %{{y:.2f}} {unit}<br>"
                f"middle {_SHARE}: %{{customdata[0]:.2f}} to %{{customdata[1]:.2f}} {unit}"
                "<extra></extra>"
            ),
        },
    ]
    return traces


def _level(samples: int, value: float, name: str, colour: str, unit: str) -> dict[str, Any]:
    return {
        "x": [1, samples],
        "y": [value, value],
        "mode": "lines",
        "line": {"color": colour, "width": 1.5, "dash": "dash"},
        "name": name,
        "hovertemplate": f"{name}: %{{y:.2f}} {unit}<extra></extra>",
    }


def _layout(y_title: str, samples: int) -> dict[str, Any]:
    return {
        "xaxis": {
            "title": {"text": "samples drawn"},
            "tickformat": ",d",
            "range": [0, samples],
            "nticks": 8,
        },
        "yaxis": {"title": {"text": y_title}},
    }
