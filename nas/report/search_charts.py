"""Charts of a search: convergence of its samples, choices at each position, and the Pareto fronts."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from textwrap import wrap
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from edgenas_core.page.chart import axes, limit_line, line, points
from edgenas_core.page.palette import (
    BLUE,
    DOTS,
    GREEN,
    GREY,
    GROUND,
    INK,
    ORANGE,
    SEQUENTIAL,
    SERIES,
    VERMILLION,
    band,
)
from edgenas_core.page.parts import Columns, Figure, Legend, PagePart
from nas.report.answer import Answer
from nas.report.network import networks_of
from nas.spaces.base import SearchSpace
from nas.trials.problem import SearchProblem
from nas.trials.statistics import BAND, ChoiceHistory, bin_edges
from nas.trials.survey import pareto_front
from nas.trials.trial import Trials

_SHARE = f"{BAND:.0%}"
_FEW = 200
"""So few samples are drawn one by one as well."""


def convergence(
    done: Trials, feasible: Bool[ndarray, "n"], problem: SearchProblem, answer: Answer
) -> Columns:
    """Every figure, side by side."""
    count = len(done)
    figures = [
        _convergence_figure(
            "Latency of the samples",
            *(answer.latency_axis, "ms", done.latency_ms),
            _level_line(count, problem.limit_ms, answer.limit, VERMILLION),
        ),
        _convergence_figure(
            f"Accuracy of the samples, and the best within {answer.label}",
            *(answer.accuracy_axis, "%", 100 * done.accuracy),
            *_best_lines(done, feasible, answer),
        ),
    ]
    for limit, costs in zip(problem.limits.each, done.costs.T, strict=True):
        level = _level_line(count, limit.bound, str(limit), VERMILLION)
        figures.append(
            _convergence_figure(
                f"{limit.title} of the samples", limit.title, limit.unit, costs, level
            )
        )
    return Columns(figures)


def _best_lines(
    done: Trials, feasible: Bool[ndarray, "n"], answer: Answer
) -> Iterator[dict[str, Any]]:
    """The best accuracy so far, and that of the optimum."""
    best = np.maximum.accumulate(np.where(feasible, 100 * done.accuracy, -np.inf))
    rises = np.flatnonzero(best > np.concatenate([[-np.inf], best[:-1]]))
    if len(rises):
        at = np.append(rises, len(done) - 1)
        name = f"best within {answer.label} so far"
        yield line(name, at + 1, best[at], color=GREEN, width=2, shape="hv")
    if answer.summary.optimum is not None:
        name = f"{answer.optimum_name} within {answer.label}"
        yield _level_line(len(done), answer.summary.optimum.accuracy.value, name, INK)


def _convergence_figure(
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
    if count <= _FEW:
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


def _level_line(samples: int, value: float, name: str, colour: str) -> dict[str, Any]:
    return line(name, [1, samples], [value, value], color=colour, width=1.5, dash="dash")


COLOURS = (GREY, *SERIES[:-1], INK)
"""By option; positions with more options than these repeat them."""

_MOST = 24
"""Positions that are drawn: more figures say no more."""


def choices(history: ChoiceHistory, space: SearchSpace) -> list[PagePart | str]:
    """Caption, and a figure for each position."""
    what = "share of the samples"
    text = "Share of each option in the samples of a bin, at each position; there is no policy."
    if history.has_policy:
        what = "probability"
        text = "Mean probability of each option in the policy, over a bin of samples, at each position."
    count = len(space.positions)
    figures = [_choice_figure(number, history, space, what) for number in range(min(count, _MOST))]
    is_same = len({space.options(number) for number in range(len(figures))}) == 1
    legend = [Legend(dict(zip(space.options(0), COLOURS, strict=False)))] if is_same else []
    if count > _MOST:
        text += f" The first {_MOST} of {count} positions are drawn."
    return [text, *legend, Columns(figures, least_width=300)]


def _choice_figure(position: int, history: ChoiceHistory, space: SearchSpace, what: str) -> Figure:
    edges = history.edges
    values: Float64[ndarray, "bins K"] = history.means()[:, position]
    filled = np.flatnonzero(~np.isnan(values[:, 0]))  # a large batch leaves bins without any
    bins = filled[[0, *range(len(filled)), -1]]  # the first and the last bin reach the ends
    middles = ((edges[:-1] + edges[1:]) / 2)[filled]
    x = np.concatenate([[0.0], middles, [float(edges[-1])]])
    traces = [
        line(name, x, values[bins, option] * 100, width=1, color=GROUND)
        | {
            "stackgroup": "choices",
            "fillcolor": COLOURS[option % len(COLOURS)],
            "hovertemplate": "%{y:.1f} %",
        }
        for option, name in enumerate(space.options(position))
    ]
    layout = axes("samples drawn", f"{what} (%)", hovermode="x unified", showlegend=False)
    layout["xaxis"] |= {"tickformat": ",d", "range": [0, int(edges[-1])], "nticks": 6}
    layout["yaxis"]["range"] = [0, 100]
    return Figure(f"Choices at {space.positions[position]}", traces, layout, height=250)


MOST_DOTS = 2000
"""Points of the whole space, and of the samples, that are drawn."""

_HIDDEN = 0.05
"""Share of the sampled architectures, the least accurate, that lie below the figure at first."""
_FINEST = 256
"""Spots of the grid by which points are thin out, a side."""
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
    kept = thin(sampled.latency_ms, percent, MOST_DOTS)
    counts = f"{len(kept):,} of the {len(first):,} distinct architectures sampled"
    counted_ms = np.where(problem.limits.met(sampled.costs), sampled.latency_ms, np.nan)
    on_front = sampled.rows(pareto_front(percent, counted_ms))
    traces = [
        points(
            "sampled",
            **_point_texts(sampled.rows(kept), problem),
            color=first[kept] + 1,
            **_SAMPLED,
        ),
        _front_steps("found front", on_front, problem, color=BLUE, dash="dot"),
    ]
    if survey is not None:
        dots = thin(survey.latency_ms, survey.accuracy, MOST_DOTS)
        counts = f"{len(dots):,} of the {len(survey.accuracy):,} architectures of the space, and {counts}"
        x, y = survey.latency_ms[dots], survey.accuracy[dots] * 100
        whole = points("whole space", x, y, color=DOTS, size=3) | {"hoverinfo": "skip"}
        traces.insert(0, whole)
        true_front = problem.surveyed(survey.pareto_front)
        traces.insert(2, _front_steps(answer.front_name, true_front, problem, color=ORANGE))
        if survey.optimum is not None:
            optimum = _point_texts(problem.surveyed(np.array([survey.optimum])), problem)
            traces.append(points(f"{answer.optimum_name} {within}", **optimum, **_STAR))
    if feasible.any():
        best = done.rows(np.argmax(np.where(feasible, done.accuracy, -np.inf), keepdims=True))
        traces.append(points(f"best sample {within}", **_point_texts(best, problem), **_CIRCLE))
    highest = 100 * (done.accuracy.max() if survey is None else survey.accuracy.max())
    lowest = np.quantile(percent, _HIDDEN)
    room = max(0.05 * (highest - lowest), 0.5)
    layout = axes(answer.latency_axis, answer.accuracy_axis)
    layout["yaxis"]["range"] = [lowest - room, highest + room]
    return Figure(
        "Samples by latency and accuracy",
        [{"hovertemplate": "%{text}<extra></extra>"} | trace for trace in traces],
        layout | limit_line(problem.limit_ms, answer.limit),
        f"Point at a mark to see its architecture; a double click shows the inaccurate ones, too. The "
        f"chart shows {counts}. If several share a spot, the first is drawn.",
        height=560,
    )


def _point_texts(trials: Trials, problem: SearchProblem) -> dict[str, Any]:
    """Latencies in ms, accuracies in percent, and the texts that a reader sees at the points."""
    texts = [
        f"{network.accuracy.text}, {network.latency.text}<br>{_wrap(network.arch)}"
        + (f"<br>first at sample {network.sample:,}" if network.sample else "")
        for network in networks_of(trials, problem)
    ]
    return {"x": trials.latency_ms, "y": trials.accuracy * 100, "text": texts}


def _wrap(arch: str) -> str:
    """An architecture's text in lines, for the label of a chart's point."""
    return "<br>".join(wrap(arch.replace("+", "+ "), 40)).replace("+ ", "+")


def _front_steps(name: str, trials: Trials, problem: SearchProblem, **style: Any) -> dict[str, Any]:
    style |= {"mode": "lines+markers", "width": 1.5, "shape": "hv"}
    return line(name, **_point_texts(trials, problem), **style)


def thin(
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
