"""Option of each position over the trials: the policy's probabilities, or the shares."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from edgenas_core.page.chart import axes, line
from edgenas_core.page.palette import GREY, GROUND, INK, SERIES
from edgenas_core.page.parts import Columns, Figure, Legend, PagePart
from nas.spaces.base import SearchSpace
from nas.trials.statistics import ChoiceHistory

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
    figures = [_figure(number, history, space, what) for number in range(min(count, _MOST))]
    is_same = len({space.options(number) for number in range(len(figures))}) == 1
    legend = [Legend(dict(zip(space.options(0), COLOURS, strict=False)))] if is_same else []
    if count > _MOST:
        text += f" The first {_MOST} of {count} positions are drawn."
    return [text, *legend, Columns(figures, least_width=300)]


def _figure(position: int, history: ChoiceHistory, space: SearchSpace, what: str) -> Figure:
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
    name = space.positions[position]
    return Figure(name[0].upper() + name[1:], traces, layout, height=250)
