"""The samples, their Pareto front, and the true one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from common.page.chart import axes, limit_line, line, points
from common.page.palette import BLUE, DOTS, GROUND, INK, ORANGE, SEQUENTIAL
from common.page.parts import Figure
from nas.report.answer import Answer
from nas.report.charts.thinning import spread
from nas.report.network import networks_of
from nas.trials.problem import SearchProblem
from nas.trials.survey import pareto_front
from nas.trials.trial import Trials

MOST_DOTS = 2000
"""Points of the whole space, and of the samples, that are drawn."""

_LATER = [[i / 3, colour] for i, (_, colour) in enumerate(SEQUENTIAL[1:])]
_HIDDEN = 0.05
"""Share of the sampled architectures, the least accurate, that lie below the figure at first."""
_TEXT_ONLY = {"hovertemplate": "%{text}<extra></extra>"}


def front(
    done: Trials, feasible: Bool[ndarray, "n"], problem: SearchProblem, answer: Answer
) -> Figure:
    """Latency and accuracy of every architecture, as far as it is worth drawing.

    Only samples within every limit but the latency's make the found front, as with the true one.
    """
    survey = problem.survey
    _, first = np.unique(done.architectures, axis=0, return_index=True)
    first.sort()  # the trial at which each distinct architecture first came
    latency_ms, accuracy = done.latency_ms[first], done.accuracy[first] * 100
    kept = spread(latency_ms, accuracy, MOST_DOTS)
    counts = f"{len(kept):,} of the {len(first):,} distinct architectures sampled"
    traces = []
    if survey is not None:
        dots = spread(survey.latency_ms, survey.accuracy, MOST_DOTS)
        counts = (
            f"{len(dots):,} of the {len(survey.accuracy):,} architectures of the space, {counts}"
        )
        x, y = survey.latency_ms[dots], survey.accuracy[dots] * 100
        traces.append(points("whole space", x, y, color=DOTS, size=3) | {"hoverinfo": "skip"})
    traces.append(_sampled(done, first[kept], problem))
    if survey is not None:
        traces.append(
            _front(
                answer.front_name, *_points(problem.surveyed(survey.pareto_front), problem), ORANGE
            )
        )
    taking_part = problem.limits.met(done.costs)[first]
    on_front = first[pareto_front(accuracy, np.where(taking_part, latency_ms, np.nan))]
    traces.append(_front("found front", *_points(done.rows(on_front), problem), BLUE, dash="dot"))
    traces += _marks(done, feasible, problem, answer)
    highest = 100 * (done.accuracy.max() if survey is None else survey.accuracy.max())
    lowest = np.quantile(accuracy, _HIDDEN)
    room = max(0.05 * (highest - lowest), 0.5)
    layout = axes(answer.latency_axis, answer.accuracy_axis)
    layout["yaxis"]["range"] = [lowest - room, highest + room]
    return Figure(
        "Found against what there is",
        traces,
        layout | limit_line(problem.limit_ms, answer.limit),
        f"Point at a mark to see its architecture; a double click shows the inaccurate ones, too. Drawn "
        f"are {counts}: where several fall on one spot, the first.",
        height=560,
    )


Points = tuple[Float64[ndarray, "n"], Float64[ndarray, "n"], list[str]]
"""Latencies in ms, accuracies in percent, and the texts that a reader sees at the points."""


def _points(trials: Trials, problem: SearchProblem) -> Points:
    texts = [
        f"{network.accuracy.text}, {network.latency.text}<br>{lines_of(network.arch)}"
        + (f"<br>first at sample {network.sample:,}" if network.sample else "")
        for network in networks_of(trials, problem)
    ]
    return trials.latency_ms, trials.accuracy * 100, texts


def lines_of(text: str, width: int = 40) -> str:
    """An architecture's text in lines, for the label of a chart's point."""
    lines = [""]
    for part in text.replace("+", "+ ").split(" "):
        if lines[-1] and len(lines[-1]) + len(part) > width:
            lines.append("")
        lines[-1] += part if part.endswith("+") or not lines[-1] else f" {part}"
    return "<br>".join(lines)


def _sampled(done: Trials, at: Int64[ndarray, "n"], problem: SearchProblem) -> dict[str, Any]:
    x, y, texts = _points(done.rows(at), problem)
    title = {"text": "first at sample", "side": "right", "font": {"size": 12}}
    bar = {"title": title, "thickness": 12}
    return _TEXT_ONLY | points(
        "sampled",
        x,
        y,
        text=texts,
        color=at + 1,
        colorscale=_LATER,
        size=6,
        line={"width": 0.5, "color": GROUND},
        colorbar=bar | {"outlinewidth": 0, "tickformat": ",d"},
    )


def _front(
    name: str,
    x: Float64[ndarray, "n"],
    y: Float64[ndarray, "n"],
    texts: Sequence[str],
    colour: str,
    **style: Any,
) -> dict[str, Any]:
    style |= {"color": colour, "width": 1.5, "shape": "hv"}
    return line(name, x, y, mode="lines+markers", text=texts, **style) | _TEXT_ONLY


def _marks(
    done: Trials, feasible: Bool[ndarray, "n"], problem: SearchProblem, answer: Answer
) -> list[dict[str, Any]]:
    """The best sample within all limits, and the best there is."""
    survey, marks = problem.survey, []
    if survey is not None and survey.optimum is not None:
        x, y, texts = _points(problem.surveyed(np.array([survey.optimum])), problem)
        style = {"symbol": "star", "size": 17, "color": ORANGE, "line": {"color": INK, "width": 1}}
        marks.append(
            points(f"{answer.optimum_name} within {answer.label}", x, y, text=texts, **style)
        )
    if feasible.any():
        best = int(np.argmax(np.where(feasible, done.accuracy, -np.inf)))
        x, y, texts = _points(done.rows(np.array([best])), problem)
        style = {"symbol": "circle-open", "size": 15, "color": BLUE, "line": {"width": 2.5}}
        marks.append(points(f"best sample within {answer.label}", x, y, text=texts, **style))
    return [mark | _TEXT_ONLY for mark in marks]
