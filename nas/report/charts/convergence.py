"""Latency and further costs against their limits, and accuracy, over the samples."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64
from numpy import ndarray

from edgenas_core.page.chart import axes, line, points
from edgenas_core.page.palette import BLUE, GREEN, GREY, INK, VERMILLION, band
from edgenas_core.page.parts import Columns, Figure
from nas.report.answer import Answer
from nas.trials.problem import SearchProblem
from nas.trials.statistics import BAND, bin_edges
from nas.trials.trial import Trials

_SHARE = f"{BAND:.0%}"
FEW = 200
"""So few samples are drawn one by one as well."""


def convergence(
    done: Trials, feasible: Bool[ndarray, "n"], problem: SearchProblem, answer: Answer
) -> Columns:
    """Every figure, side by side."""
    count = len(done)
    figures = [
        _figure(
            "Latency of the samples",
            *(answer.latency_axis, "ms", done.latency_ms),
            _level(count, problem.limit_ms, answer.limit, VERMILLION),
        ),
        _figure(
            f"Accuracy of the samples, and the best within {answer.label}",
            *(answer.accuracy_axis, "%", 100 * done.accuracy),
            *_best(done, feasible, answer),
        ),
    ]
    for limit, costs in zip(problem.limits.each, done.costs.T, strict=True):
        level = _level(count, limit.bound, str(limit), VERMILLION)
        figures.append(
            _figure(f"{limit.title} of the samples", limit.title, limit.unit, costs, level)
        )
    return Columns(figures)


def _best(done: Trials, feasible: Bool[ndarray, "n"], answer: Answer) -> Iterator[dict[str, Any]]:
    """The best accuracy so far, and that of the optimum."""
    best = np.maximum.accumulate(np.where(feasible, 100 * done.accuracy, -np.inf))
    rises = np.flatnonzero(best > np.concatenate([[-np.inf], best[:-1]]))
    if len(rises):
        at = np.append(rises, len(done) - 1)
        name = f"best within {answer.label} so far"
        yield line(name, at + 1, best[at], color=GREEN, width=2, shape="hv")
    if answer.summary.optimum is not None:
        name = f"{answer.optimum_name} within {answer.label}"
        yield _level(len(done), answer.summary.optimum.accuracy.value, name, INK)


def _figure(
    title: str, axis: str, unit: str, values: Float64[ndarray, "n"], *more: dict[str, Any]
) -> Figure:
    """Mean and band of bins of samples, and more traces."""
    count, edges = len(values), bin_edges(len(values))
    bins = [values[a:b] for a, b in pairwise(edges)]
    low, high = np.array([np.quantile(each, [(1 - BAND) / 2, (1 + BAND) / 2]) for each in bins]).T
    middles = (edges[:-1] + 1 + edges[1:]) / 2
    ends = [0, *range(len(bins)), -1]  # the first and the last bin reach the ends
    x = np.concatenate([[1.0], middles, [float(count)]])
    traces: list[Any] = []
    if count <= FEW:
        traces.append(points("each sample", np.arange(1, count + 1), values, color=GREY, size=4))
    spans = [
        f"samples {a + 1:,} to {b:,}<br>middle {_SHARE}: {from_:.2f} to {to:.2f} {unit}"
        for (a, b), from_, to in zip(pairwise(edges), low, high, strict=True)
    ]
    means = np.array([each.mean() for each in bins])
    mode = "lines" if len(bins) > 2 else "lines+markers"
    traces += [
        line("", x, low[ends], width=0) | {"hoverinfo": "skip", "showlegend": False},
        line(f"middle {_SHARE} of the samples", x, high[ends], width=0)
        | {"hoverinfo": "skip", "fill": "tonexty", "fillcolor": band(BLUE)},
        line("mean", middles, means, mode=mode, text=spans, color=BLUE, width=2)
        | {"hovertemplate": f"mean %{{y:.2f}} {unit}, %{{text}}<extra></extra>"},
    ]
    layout = axes("samples drawn", axis)
    layout["xaxis"] |= {"tickformat": ",d", "range": [0, count], "nticks": 8}
    sizes = sorted({f"{size:,}" for size in np.diff(edges).tolist()})
    caption = (
        f"Mean of {len(bins)} bins of {' or '.join(sizes)} samples; the band holds the middle {_SHARE} of "
        f"a bin's samples."
    )
    return Figure(title, [*traces, *more], layout, caption)


def _level(samples: int, value: float, name: str, colour: str) -> dict[str, Any]:
    return line(name, [1, samples], [value, value], color=colour, width=1.5, dash="dash")
