"""Latency against its limit, and accuracy, over the samples: means and bands of bins."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from nas.landscape import Landscape
from nas.report.wording import Wording
from nas.samples import Samples
from nas.trajectory import BAND, bin_edges
from runtime.page.palette import BLUE, DOTS, GREEN, INK, VERMILLION, band
from runtime.page.parts import Columns, Figure

FEW = 200
"""So few samples are drawn one by one as well."""


def convergence(
    samples: Samples, landscape: Landscape | None, limit_ms: float, wording: Wording
) -> Columns:
    """Both figures, side by side."""
    edges = bin_edges(len(samples))
    return Columns(
        [
            _latency(samples, edges, limit_ms, wording),
            _accuracy(samples, edges, landscape, limit_ms, wording),
        ]
    )


def _in_bins(edges: Int64[ndarray, "bins_and_1"]) -> str:
    sizes = np.diff(edges)
    least, most = sizes.min(), sizes.max()
    size = f"{least:,}" if least == most else f"{least:,} or {most:,}"
    return f"{len(sizes)} bins of {size} samples" if len(sizes) > 1 else f"one bin of {size}"


def _latency(
    samples: Samples, edges: Int64[ndarray, "bins_and_1"], limit_ms: float, wording: Wording
) -> Figure:
    traces = _banded(samples.latency_ms, edges, BLUE, "ms")
    traces.append(_level(len(samples), limit_ms, wording.limit, VERMILLION, "ms"))
    return Figure(
        "Latency against its limit",
        traces,
        _layout(wording.latency_axis, len(samples)),
        f"Mean of {_in_bins(edges)}; the band holds the middle {BAND:.0%} of a bin's samples.",
    )


def _accuracy(
    samples: Samples,
    edges: Int64[ndarray, "bins_and_1"],
    landscape: Landscape | None,
    limit_ms: float,
    wording: Wording,
) -> Figure:
    percent = samples.accuracy * 100
    traces = _banded(percent, edges, BLUE, "%")
    within = np.where(samples.latency_ms <= limit_ms, percent, -np.inf)
    best = np.maximum.accumulate(within)
    rises = np.flatnonzero(best > np.concatenate([[-np.inf], best[:-1]]))
    if len(rises):
        at = np.append(rises, len(samples) - 1)
        traces.append(
            {
                "x": at + 1,
                "y": best[at],
                "mode": "lines",
                "line": {"color": GREEN, "width": 2, "shape": "hv"},
                "name": "best within T so far",
                "hovertemplate": "%{y:.2f} % from sample %{x:,}",
            }
        )
    if landscape is not None and landscape.optimum is not None:
        optimum = float(landscape.accuracy[landscape.optimum]) * 100
        traces.append(_level(len(samples), optimum, f"{wording.optimum} within T", INK, "%"))
    return Figure(
        "Accuracy of what is sampled, and the best within T",
        traces,
        _layout(wording.accuracy_axis, len(samples)),
        f"Mean and middle 80 % of {_in_bins(edges)}. The best so far counts only samples within T.",
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
                "marker": {"color": DOTS, "size": 4},
                "name": "each sample",
                "hovertemplate": f"%{{y:.2f}} {unit}, sample %{{x:,}}<extra></extra>",
            }
        )
    edge = {"x": middles, "mode": "lines", "line": {"width": 0}, "hoverinfo": "skip"}
    traces += [
        {**edge, "y": low, "showlegend": False},
        {
            **edge,
            "y": high,
            "fill": "tonexty",
            "fillcolor": band(colour),
            "name": "middle 80 % of the samples",
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
                f"middle 80 %: %{{customdata[0]:.2f}} to %{{customdata[1]:.2f}} {unit}"
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
