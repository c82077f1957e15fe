"""The figures of a study's page, as Plotly's dicts. Bands are bootstrap 95 % intervals of medians."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64, Shaped
from numpy import ndarray

from nas.spaces.nas_bench_201.space import NAS_BENCH_201
from nas.study.learning_curve import Course, at_query, bin_means, bins_of
from nas.study.results import Pooled
from nas.study.statistics import Interval, median_intervals
from nas.trials.survey import Landscape, pareto_front
from runtime.page.markup import chart_text
from runtime.page.palette import FAINT, INK, SEQUENTIAL, SERIES, VERMILLION, band
from runtime.page.parts import Figure

POINTS = 40
"""Of a curve."""

Courses = Mapping[str, Course]
"""What a chart compares: the searches of one problem, by the name of what differs."""


def gap_by_samples(courses: Courses, problem: str) -> Figure:
    """Points below the optimum, by samples."""

    def curve(course: Course) -> tuple[Shaped[ndarray, "points"], Float64[ndarray, "points R"]]:
        gap = course.gap()
        at = _points(gap.shape[1])
        return at, gap[:, at - 1].T

    return _gap(courses, problem, "samples", "architectures proposed", curve)


def gap_by_queries(courses: Courses, problem: str) -> Figure:
    """Points below the optimum, by distinct architectures evaluated."""

    def curve(course: Course) -> tuple[Shaped[ndarray, "points"], Float64[ndarray, "points R"]]:
        gap, queries = course.gap(), course.new.cumsum(1)
        at = _points(int(np.median(queries[:, -1])))
        return at, np.stack([at_query(gap, queries, count) for count in at.tolist()])

    return _gap(courses, problem, "queries", "distinct architectures evaluated", curve)


def gap_by_training(courses: Courses, problem: str) -> Figure | None:
    """Points below the optimum, by the simulated hours of training every query; None if unknown."""

    def curve(course: Course) -> tuple[Shaped[ndarray, "points"], Float64[ndarray, "points R"]]:
        gap = course.gap()
        hours = course.training_hours
        at = np.geomspace(np.median(hours[:, 0]), np.median(hours[:, -1]), POINTS)
        rows = [
            np.where(
                hours[:, 0] <= limit, at_query(gap, hours, limit), np.inf
            )  # before its first training ends, a search has found nothing
            for limit in at.tolist()
        ]
        return at, np.stack(rows)

    if np.isnan(next(iter(courses.values())).tables.train_s).any():
        return None
    return _gap(courses, problem, "training hours", "simulated, every query trained once", curve)


def _gap(
    courses: Courses,
    problem: str,
    axis: str,
    meaning: str,
    curve: Callable[[Course], tuple[Shaped[ndarray, "points"], Float64[ndarray, "points R"]]],
) -> Figure:
    data = []
    optimum = next(iter(courses.values())).optimum_name
    for (name, course), colour in zip(courses.items(), _colours(), strict=False):
        x, rows = curve(course)
        data += _banded(name, x, rows, colour)
    return Figure(
        f"Gap by {axis}: {problem}",
        data,
        {
            "xaxis": {"type": "log", "title": {"text": f"{axis} ({meaning})"}},
            "yaxis": {
                "title": {"text": f"gap to the {optimum} (points)"},
                "rangemode": "tozero",
            },
        },
        f"Horizontal axis: {axis}. Median over seeds of the accuracy still missing to the {optimum} "
        f"within T.",
    )


def latency_by_bins(courses: Courses, problem: str, limit_ms: float) -> Figure:
    """Mean latency of 20 bins of samples against T: figure 5-2, below."""
    figure = _binned(courses, "latency (ms)", lambda course: course.latency_ms)
    line = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": limit_ms, "y1": limit_ms}
    line["line"] = {"color": VERMILLION, "dash": "dash", "width": 1.5}
    said = {"xref": "paper", "x": 1, "y": limit_ms, "text": f"T = {limit_ms:g} ms"}
    said |= {"showarrow": False, "xanchor": "right", "yanchor": "bottom"}
    layout = {**figure[1], "shapes": [line], "annotations": [said]}
    return Figure(f"Mean latency by samples: {problem}", figure[0], layout, _BIN_CAPTION)


def accuracy_by_bins(courses: Courses, problem: str) -> Figure:
    """Mean accuracy of 20 bins of samples: figure 5-2, above."""
    data, layout = _binned(courses, "accuracy (%)", lambda course: 100 * course.accuracy)
    return Figure(f"Mean accuracy by samples: {problem}", data, layout, _BIN_CAPTION)


_BIN_CAPTION = "Horizontal axis: samples, in 20 bins. Median over seeds of each bin's mean."


def _binned(
    courses: Courses, title: str, values: Callable[[Course], Float64[ndarray, "R n"]]
) -> tuple[list[Any], dict[str, Any]]:
    data = []
    for (name, course), colour in zip(courses.items(), _colours(), strict=False):
        means = bin_means(values(course))
        count = course.trace.index.shape[1]
        ends = np.array([samples[-1] + 1 for samples in bins_of(count)])
        data += _banded(name, ends, means.T, colour)
    return data, {
        "xaxis": {"title": {"text": "samples"}, "rangemode": "tozero"},
        "yaxis": {"title": {"text": title}},
    }


def _banded(
    name: str, x: Shaped[ndarray, "points"], rows: Float64[ndarray, "points R"], colour: str
) -> list[Any]:
    """A median and its interval, as a band that belongs to the line's entry in the legend."""
    intervals = median_intervals(rows)
    bounds = [one.bounds for one in intervals if one.bounds]  # of all points or of none
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


def fronts(courses: Courses, problem: str, space: Landscape) -> Figure:
    """The front of the whole space, and the one that each name's middle search found."""
    true = space.pareto_front
    front_name = next(iter(courses.values())).front_name
    data = [
        _front(front_name, space, true, INK) | {"line": {"color": INK, "width": 1, "shape": "hv"}}
    ]
    for (name, course), colour in zip(courses.items(), _colours(), strict=False):
        areas = course.hypervolume_share()
        middle = int(np.argsort(areas, kind="stable")[len(areas) // 2])
        known = np.unique(course.trace.index[middle]).astype(np.int64)
        front = known[pareto_front(space.accuracy[known], space.latency_ms[known])]
        data.append(
            _front(name, space, front, colour)
            | {"mode": "markers", "marker": {"color": colour, "size": 6}}
        )
    limit = {"type": "line", "yref": "paper", "x0": space.limit_ms, "x1": space.limit_ms}
    limit |= {"y0": 0, "y1": 1, "line": {"color": VERMILLION, "dash": "dash", "width": 1.5}}
    return Figure(
        f"Found and {front_name}: {problem}",
        data,
        {
            "xaxis": {"title": {"text": "latency (ms)"}},
            "yaxis": {"title": {"text": "accuracy (%)"}},
            "shapes": [limit],
        },
        "After all samples. Dots: the architectures of the search whose hypervolume is the median of "
        "the seeds; the dashed line is T.",
    )


def _front(name: str, space: Landscape, front: Int64[ndarray, "n"], colour: str) -> dict[str, Any]:
    return {
        "name": chart_text(name),
        "x": space.latency_ms[front],
        "y": 100 * space.accuracy[front],
        "text": [NAS_BENCH_201.strings[i] for i in front],
        "hovertemplate": "%{x:.2f} ms, %{y:.2f} %<br>%{text}",
        "mode": "lines",
        "line": {"color": colour},
    }


def error_bars(intervals: Sequence[Interval], colour: str) -> dict[str, Any]:
    """Around the middles; none where there are no intervals."""
    if not any(one.bounds for one in intervals):
        return {"visible": False}
    edges = [(one.middle, *(one.bounds or (one.middle, one.middle))) for one in intervals]
    return {
        "type": "data",
        "symmetric": False,
        "array": [high - middle for middle, _, high in edges],
        "arrayminus": [middle - low for middle, low, _ in edges],
        "color": colour,
    }


def improvements(pooled: Sequence[Pooled], reference: str, titles: Mapping[str, str]) -> Figure:
    """How likely a run of the reference beats one of each other, over all problems."""
    data = []
    others = list(dict.fromkeys(entry.other for entry in pooled))
    for other, colour in zip(others, _colours(), strict=False):
        found = [entry for entry in pooled if entry.other == other]
        data.append(
            {
                "name": chart_text(f"{reference} over {other}"),
                "x": [entry.improvement.middle for entry in found],
                "y": [chart_text(titles[entry.measure]) for entry in found],
                "error_x": error_bars([entry.improvement for entry in found], colour),
                "mode": "markers",
                "marker": {"color": colour, "size": 9},
            }
        )
    even = {"type": "line", "yref": "paper", "x0": 0.5, "x1": 0.5, "y0": 0, "y1": 1}
    even["line"] = {"color": FAINT, "dash": "dot", "width": 1}
    return Figure(
        f"Probability that a search with {reference} beats another",
        data,
        {
            "xaxis": {"title": {"text": "probability of improvement"}, "range": [0, 1]},
            "yaxis": {"autorange": "reversed"},
            "shapes": [even],
        },
        "Mean over all problems, default settings, with bootstrap 95 % intervals where there are "
        "enough seeds (Agarwal et al., NeurIPS 2021); 0.5 is no difference.",
    )


def heat_map_figure(
    counts: Float64[ndarray, "ms bins"], title: str, limit_ms: float, caption: str
) -> Figure:
    """Samples by whole milliseconds (down) and accuracy (across): figure 5-1."""
    used = np.flatnonzero(counts.sum(1) >= 0.5)
    rows = slice(int(used.min()), int(used.max()) + 1) if len(used) else slice(0, 1)
    shown = counts[rows]
    line = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": limit_ms, "y1": limit_ms}
    line["line"] = {"color": VERMILLION, "dash": "dash", "width": 1.5}
    bins = [f"{low} to {low + 10}" for low in range(0, 100, 10)]
    return Figure(
        title,
        [
            {
                "type": "heatmap",
                "x": bins,
                "y": np.arange(rows.start, rows.stop) + 0.5,
                "z": np.where(shown > 0, np.log10(np.maximum(shown, 0.1)), np.nan),
                "text": [[f"{c:.0f}" if c >= 0.5 else "" for c in row] for row in shown],
                "texttemplate": "%{text}",
                "customdata": shown,
                "hovertemplate": "%{y:.0f} ms, %{x} %: %{customdata:.1f} samples<extra></extra>",
                "colorscale": SEQUENTIAL,
                "showscale": False,
            }
        ],
        {
            "xaxis": {"title": {"text": "accuracy (%)"}},
            "yaxis": {"title": {"text": "latency (whole ms)"}, "autorange": "reversed"},
            "shapes": [line],
        },
        caption,
        height=520,
    )


def _points(count: int) -> Int64[ndarray, "points"]:
    """Whole numbers from 1 to `count`, evenly on a logarithmic axis."""
    return np.unique(np.round(np.geomspace(1, count, POINTS)).astype(int))


def _colours() -> tuple[str, ...]:
    return SERIES * 4
