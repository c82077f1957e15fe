"""The samples, their Pareto front, and the true one."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from common.page.palette import BLUE, DOTS, GROUND, INK, ORANGE, SEQUENTIAL
from common.page.parts import Figure
from common.types.kind import Kind
from nas.report.charts.limit_line import limit_line
from nas.report.charts.thinning import spread
from nas.report.wording import Wording, kind_note, lines_of
from nas.trials.problem import SearchProblem
from nas.trials.survey import Survey, pareto_front
from nas.trials.trial import Trials

MOST_DOTS = 2000
"""Points of the whole space, and of the samples, that are drawn."""

_LATER = [[i / 3, colour] for i, (_, colour) in enumerate(SEQUENTIAL[1:])]
_HIDDEN = 0.05
"""Share of the sampled architectures, the least accurate, that lie below the figure at first."""
_HOVER = "%{y:.2f} %, %{x:.3~f} ms%{customdata[1]}<br>%{customdata[0]}<extra></extra>"


def front(
    done: Trials, feasible: Bool[ndarray, "n"], problem: SearchProblem, wording: Wording
) -> Figure:
    """Latency and accuracy of every architecture, as far as it is worth drawing.

    Only samples within every limit but the latency's make the found front, as with the true one.
    """
    space, survey = problem.space, problem.survey
    taking_part = problem.limits.met(done.costs)
    _, first = np.unique(done.architectures, axis=0, return_index=True)
    first.sort()  # the trial at which each distinct architecture first came
    latency_ms, percent = done.latency_ms[first], done.accuracy[first] * 100
    notes = np.array([kind_note(Kind(kind)) for kind in done.latency_kind[first]], dtype=object)
    notes += np.array([f"<br>first at sample {done.number[at] + 1:,}" for at in first], object)
    texts = np.array([lines_of(space.text(done.architectures[at])) for at in first], object)

    traces: list[dict[str, Any]] = []
    described = []
    if survey is not None:
        shown = spread(survey.latency_ms, survey.accuracy, MOST_DOTS)
        traces.append(_space(survey, shown))
        described.append(
            f"{len(shown):,} of the {len(survey.accuracy):,} architectures of the space"
        )
    drawn = spread(latency_ms, percent, MOST_DOTS)
    described.append(f"{len(drawn):,} of the {len(first):,} distinct architectures sampled")
    traces.append(
        {
            **_points(latency_ms[drawn], percent[drawn], texts[drawn], notes[drawn]),
            "mode": "markers",
            "marker": {
                "color": first[drawn] + 1,
                "colorscale": _LATER,
                "size": 6,
                "line": {"width": 0.5, "color": GROUND},
                "colorbar": {
                    "title": {"text": "first at sample", "side": "right", "font": {"size": 12}},
                    "thickness": 12,
                    "outlinewidth": 0,
                    "tickformat": ",d",
                },
            },
            "name": "sampled",
        }
    )
    if survey is not None:
        there = survey.pareto_front
        traces.append(
            {
                **_points(
                    survey.latency_ms[there],
                    survey.accuracy[there] * 100,
                    [_text(survey, number) for number in there.tolist()],
                    [""] * len(there),
                ),
                "mode": "lines+markers",
                "line": {"color": ORANGE, "width": 1.5, "shape": "hv"},
                "marker": {"size": 5},
                "name": wording.front,
            }
        )
    found = pareto_front(percent, np.where(taking_part[first], latency_ms, np.nan))
    traces.append(
        {
            **_points(latency_ms[found], percent[found], texts[found], notes[found]),
            "mode": "lines+markers",
            "line": {"color": BLUE, "width": 1.5, "shape": "hv", "dash": "dot"},
            "marker": {"size": 5},
            "name": "found front",
        }
    )
    traces += _marks(done, feasible, problem, wording)
    highest = 100 * (done.accuracy.max() if survey is None else survey.accuracy.max())
    lowest = np.quantile(percent, _HIDDEN)
    room = max(0.05 * (highest - lowest), 0.5)
    return Figure(
        "Found against what there is",
        traces,
        {
            "xaxis": {"title": {"text": wording.latency_axis}},
            "yaxis": {
                "title": {"text": wording.accuracy_axis},
                "range": [lowest - room, highest + room],
            },
            **limit_line(problem.limit_ms, wording),
        },
        f"Point at a mark to see its architecture; a double click shows the inaccurate ones, too. Drawn "
        f"are {' and '.join(described)}: where several fall on one spot, the first.",
        height=560,
    )


def _text(survey: Survey, number: int) -> str:
    return lines_of(survey.space.text(survey.space.architectures(np.array(number))))


def _points(
    x: Float64[ndarray, "n"], y: Float64[ndarray, "n"], texts: Any, notes: Any
) -> dict[str, Any]:
    return {
        "x": x,
        "y": y,
        "customdata": [list(pair) for pair in zip(texts, notes, strict=True)],
        "hovertemplate": _HOVER,
    }


def _space(survey: Survey, shown: Int64[ndarray, "n"]) -> dict[str, Any]:
    return {
        "x": survey.latency_ms[shown],
        "y": survey.accuracy[shown] * 100,
        "mode": "markers",
        "marker": {"color": DOTS, "size": 3},
        "hoverinfo": "skip",
        "name": "whole space",
    }


def _marks(
    done: Trials, feasible: Bool[ndarray, "n"], problem: SearchProblem, wording: Wording
) -> list[dict[str, Any]]:
    """The best sample within all limits, and the best there is."""
    survey = problem.survey
    marks = []
    if survey is not None and survey.optimum is not None:
        here = survey.optimum
        marks.append(
            {
                **_points(
                    survey.latency_ms[[here]],
                    survey.accuracy[[here]] * 100,
                    [_text(survey, here)],
                    [""],
                ),
                "mode": "markers",
                "marker": {
                    "symbol": "star",
                    "size": 17,
                    "color": ORANGE,
                    "line": {"color": INK, "width": 1},
                },
                "name": f"{wording.optimum} within {wording.label}",
            }
        )
    if feasible.any():
        best = int(np.argmax(np.where(feasible, done.accuracy, -np.inf)))
        marks.append(
            {
                **_points(
                    done.latency_ms[[best]],
                    done.accuracy[[best]] * 100,
                    [lines_of(problem.space.text(done.architectures[best]))],
                    [f"<br>found at sample {done.number[best] + 1:,}"],
                ),
                "mode": "markers",
                "marker": {
                    "symbol": "circle-open",
                    "size": 15,
                    "color": BLUE,
                    "line": {"width": 2.5},
                },
                "name": f"best sample within {wording.label}",
            }
        )
    return marks
