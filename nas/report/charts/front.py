"""The samples, their Pareto front, and the true one."""

from __future__ import annotations

from textwrap import wrap
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from edgenas_core.page.chart import axes, limit_line, line, points
from edgenas_core.page.palette import BLUE, DOTS, GROUND, INK, ORANGE, SEQUENTIAL
from edgenas_core.page.parts import Figure
from nas.report.answer import Answer
from nas.report.network import networks_of
from nas.trials.problem import SearchProblem
from nas.trials.survey import pareto_front
from nas.trials.trial import Trials

MOST_DOTS = 2000
"""Points of the whole space, and of the samples, that are drawn."""

_HIDDEN = 0.05
"""Share of the sampled architectures, the least accurate, that lie below the figure at first."""
_FINEST = 256
"""Spots of the grid by which points are thinned out, a side."""
_SAMPLED: dict[str, Any] = {
    "colorscale": [[i / 3, colour] for i, (_, colour) in enumerate(SEQUENTIAL[1:])],
    "size": 6,
    "line": {"width": 0.5, "color": GROUND},
    "colorbar": {
        "title": {"text": "first at sample", "side": "top", "font": {"size": 12}},
        "thickness": 12,
        "outlinewidth": 0,
        "tickformat": ",d",
    },
}
_STAR: dict[str, Any] = {
    "symbol": "star",
    "size": 17,
    "color": ORANGE,
    "line": {"color": INK, "width": 1},
}
_CIRCLE: dict[str, Any] = {
    "symbol": "circle-open",
    "size": 15,
    "color": BLUE,
    "line": {"width": 2.5},
}


def front(
    done: Trials, feasible: Bool[ndarray, "n"], problem: SearchProblem, answer: Answer
) -> Figure:
    """Latency and accuracy of every architecture, as far as it is worth drawing.

    Only samples within every limit but the latency's make the found front, as with the true one.
    """
    survey, within = problem.survey, f"within {answer.label}"
    _, first = np.unique(done.architectures, axis=0, return_index=True)
    first.sort()  # the trial at which each distinct architecture first came
    sampled = done.rows(first)
    percent = 100 * sampled.accuracy
    kept = thinned(sampled.latency_ms, percent, MOST_DOTS)
    counts = f"{len(kept):,} of the {len(first):,} distinct architectures sampled"
    counted_ms = np.where(problem.limits.met(sampled.costs), sampled.latency_ms, np.nan)
    on_front = sampled.rows(pareto_front(percent, counted_ms))
    traces = [
        points("sampled", **_texts(sampled.rows(kept), problem), color=first[kept] + 1, **_SAMPLED),
        _steps("found front", on_front, problem, color=BLUE, dash="dot"),
    ]
    if survey is not None:
        dots = thinned(survey.latency_ms, survey.accuracy, MOST_DOTS)
        counts = (
            f"{len(dots):,} of the {len(survey.accuracy):,} architectures of the space, {counts}"
        )
        x, y = survey.latency_ms[dots], survey.accuracy[dots] * 100
        whole = points("whole space", x, y, color=DOTS, size=3) | {"hoverinfo": "skip"}
        traces.insert(0, whole)
        true_front = problem.surveyed(survey.pareto_front)
        traces.insert(2, _steps(answer.front_name, true_front, problem, color=ORANGE))
        if survey.optimum is not None:
            optimum = _texts(problem.surveyed(np.array([survey.optimum])), problem)
            traces.append(points(f"{answer.optimum_name} {within}", **optimum, **_STAR))
    if feasible.any():
        best = done.rows(np.argmax(np.where(feasible, done.accuracy, -np.inf), keepdims=True))
        traces.append(points(f"best sample {within}", **_texts(best, problem), **_CIRCLE))
    highest = 100 * (done.accuracy.max() if survey is None else survey.accuracy.max())
    lowest = np.quantile(percent, _HIDDEN)
    room = max(0.05 * (highest - lowest), 0.5)
    layout = axes(answer.latency_axis, answer.accuracy_axis)
    layout["yaxis"]["range"] = [lowest - room, highest + room]
    return Figure(
        "Samples by latency and accuracy",
        [{"hovertemplate": "%{text}<extra></extra>"} | trace for trace in traces],
        layout | limit_line(problem.limit_ms, answer.limit),
        f"Point at a mark to see its architecture; a double click shows the inaccurate ones, too. Drawn "
        f"are {counts}: where several fall on one spot, the first.",
        height=560,
    )


def _texts(trials: Trials, problem: SearchProblem) -> dict[str, Any]:
    """Latencies in ms, accuracies in percent, and the texts that a reader sees at the points."""
    texts = [
        f"{network.accuracy.text}, {network.latency.text}<br>{_lines(network.arch)}"
        + (f"<br>first at sample {network.sample:,}" if network.sample else "")
        for network in networks_of(trials, problem)
    ]
    return {"x": trials.latency_ms, "y": trials.accuracy * 100, "text": texts}


def _lines(arch: str) -> str:
    """An architecture's text in lines, for the label of a chart's point."""
    return "<br>".join(wrap(arch.replace("+", "+ "), 40)).replace("+ ", "+")


def _steps(name: str, trials: Trials, problem: SearchProblem, **style: Any) -> dict[str, Any]:
    style |= {"mode": "lines+markers", "width": 1.5, "shape": "hv"}
    return line(name, **_texts(trials, problem), **style)


def thinned(
    x: Float64[ndarray, "n"], y: Float64[ndarray, "n"], at_most: int
) -> Int64[ndarray, "kept"]:
    """Positions of the points to draw: all, or the first of each spot of the finest grid that does.

    A point with a NaN is never drawn.
    """
    kept = finite = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
    side = _FINEST
    while len(kept) > at_most:
        spots = _spots(x[finite], side) * (side + 1) + _spots(y[finite], side)
        kept = finite[np.sort(np.unique(spots, return_index=True)[1])]
        side = side * 3 // 4
    return kept


def _spots(values: Float64[ndarray, "n"], side: int) -> Int64[ndarray, "n"]:
    low, high = values.min(), values.max()
    width = (high - low) or 1.0
    return np.asarray((values - low) / width * side).astype(np.int64)
