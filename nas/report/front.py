"""What was found against what there is: the samples, their Pareto front, and the true one."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from nas.report.limit_line import limit_line
from nas.report.thinning import spread
from nas.report.wording import Wording, lines_of
from nas.spaces.nas_bench_201.space import NAS_BENCH_201
from nas.trials.survey import Landscape, pareto_front
from nas.trials.trial import Samples
from runtime.page.palette import BLUE, DOTS, GROUND, INK, ORANGE, SEQUENTIAL
from runtime.page.parts import Figure

MOST_DOTS = 2000
"""Points of the whole space, and of the samples, that are drawn."""

_LATER = [[i / 3, colour] for i, (_, colour) in enumerate(SEQUENTIAL[1:])]
_HIDDEN = 0.05
"""Share of the sampled cells, the least accurate, that lie below the figure at first."""
_HOVER = "%{y:.2f} %, %{x:.3~f} ms%{customdata[1]}<br>%{customdata[0]}<extra></extra>"


def front(
    samples: Samples,
    feasible: Bool[ndarray, "n"],
    taking_part: Bool[ndarray, "n"],
    landscape: Landscape | None,
    latency_predicted: Bool[ndarray, "n"],
    *,
    limit_ms: float,
    wording: Wording,
) -> Figure:
    """Latency and accuracy of every cell, as far as it is worth drawing.

    Only samples that are `taking_part`, those within every limit but the latency's, make the found
    front, as with the true one.
    """
    indices = NAS_BENCH_201.numbers(samples.architectures)
    _, first = np.unique(indices, return_index=True)
    first.sort()  # the sample at which each distinct cell first came
    latency_ms, percent = samples.latency_ms[first], samples.accuracy[first] * 100
    notes = np.where(latency_predicted[first], " (predicted)", "").astype(object)
    notes += np.array([f"<br>first at sample {at + 1:,}" for at in first], dtype=object)
    texts = np.array([lines_of(NAS_BENCH_201.strings[i]) for i in indices[first]], dtype=object)

    traces: list[dict[str, Any]] = []
    told = []
    if landscape is not None:
        space = spread(landscape.latency_ms, landscape.accuracy, MOST_DOTS)
        traces.append(_space(landscape, space))
        told.append(f"{len(space):,} of the {len(landscape.accuracy):,} cells of the space")
    drawn = spread(latency_ms, percent, MOST_DOTS)
    told.append(f"{len(drawn):,} of the {len(first):,} distinct cells sampled")
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
    if landscape is not None:
        there = landscape.pareto_front
        traces.append(
            {
                **_points(
                    landscape.latency_ms[there],
                    landscape.accuracy[there] * 100,
                    [lines_of(NAS_BENCH_201.strings[i]) for i in there],
                    [""] * len(there),
                ),
                "mode": "lines+markers",
                "line": {"color": ORANGE, "width": 1.5, "shape": "hv"},
                "marker": {"size": 5},
                "name": _front_name(wording),
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
    traces += _marks(samples, feasible, landscape, wording)
    highest = 100 * (samples.accuracy.max() if landscape is None else landscape.accuracy.max())
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
            **limit_line(limit_ms, wording),
        },
        f"Point at a mark to see its cell; a double click shows the inaccurate cells, too. Drawn "
        f"are {' and '.join(told)}: where several fall on one spot, the first.",
        height=560,
    )


def _front_name(wording: Wording) -> str:
    share = wording.summary["space_latency_predicted"]
    if wording.accuracy_is_predicted or share == 1:
        return "predicted front"
    return "partly predicted front" if share else "true front"


def _points(
    x: Float64[ndarray, "n"], y: Float64[ndarray, "n"], texts: Any, notes: Any
) -> dict[str, Any]:
    return {
        "x": x,
        "y": y,
        "customdata": [list(pair) for pair in zip(texts, notes, strict=True)],
        "hovertemplate": _HOVER,
    }


def _space(landscape: Landscape, shown: Int64[ndarray, "n"]) -> dict[str, Any]:
    return {
        "x": landscape.latency_ms[shown],
        "y": landscape.accuracy[shown] * 100,
        "mode": "markers",
        "marker": {"color": DOTS, "size": 3},
        "hoverinfo": "skip",
        "name": "whole space",
    }


def _marks(
    samples: Samples, feasible: Bool[ndarray, "n"], landscape: Landscape | None, wording: Wording
) -> list[dict[str, Any]]:
    """The best sample within all limits, and the best there is."""
    marks = []
    if landscape is not None and landscape.optimum is not None:
        here = landscape.optimum
        marks.append(
            {
                **_points(
                    landscape.latency_ms[[here]],
                    landscape.accuracy[[here]] * 100,
                    [lines_of(NAS_BENCH_201.strings[here])],
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
        best = int(np.argmax(np.where(feasible, samples.accuracy, -np.inf)))
        marks.append(
            {
                **_points(
                    samples.latency_ms[[best]],
                    samples.accuracy[[best]] * 100,
                    [lines_of(NAS_BENCH_201.text(samples.architectures[best]))],
                    [f"<br>found at sample {best + 1:,}"],
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
