"""Option of each position over the trials: the policy's probabilities, or the shares."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from common.page.palette import (
    BLUE,
    GREEN,
    GREY,
    GROUND,
    INK,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
)
from common.page.parts import Columns, Figure, Legend, Part
from nas.spaces.base import SearchSpace
from nas.trials.choice_history import ChoiceHistory

COLOURS = (GREY, SKY, ORANGE, VERMILLION, BLUE, GREEN, PURPLE, INK)
"""By option; positions with more options than these repeat them."""

_MOST = 24
"""Positions that are drawn: more figures say no more."""


def choices(history: ChoiceHistory, space: SearchSpace) -> list[Part | str]:
    """Caption, and a figure for each position."""
    edges, values = history.edges, history.means()
    if not history.has_policy:
        text = (
            "This searcher has no policy, so these are the shares of the options that it sampled at "
            "each position."
        )
        what = "share of the samples"
    else:
        text = (
            "What the policy drew each position's option by: the mean over the samples of a bin of "
            "the probabilities that they were drawn with."
        )
        what = "probability"
    middles = (edges[:-1] + edges[1:]) / 2
    drawn = range(min(len(space.positions), _MOST))
    figures = [
        _figure(
            space.positions[number],
            space.options(number),
            middles,
            values[:, number],
            what=what,
            samples=int(edges[-1]),
        )
        for number in drawn
    ]
    same = len({space.options(number) for number in drawn}) == 1
    legend = [Legend(dict(zip(space.options(0), COLOURS, strict=False)))] if same else []
    if len(space.positions) > _MOST:
        text += f" The first {_MOST} of {len(space.positions)} positions are drawn."
    return [text, *legend, Columns(figures, least_width=300)]


def _figure(
    position: str,
    options: tuple[str, ...],
    middles: Float64[ndarray, "bins"],
    values: Float64[ndarray, "bins K"],
    *,
    what: str,
    samples: int,
) -> Figure:
    known = np.flatnonzero(~np.isnan(values[:, 0]))  # a large batch leaves bins without any
    drawn = known[[0, *range(len(known)), -1]]  # the first and the last bin reach the ends
    x = np.concatenate([[0.0], middles[known], [float(samples)]])
    traces: list[dict[str, Any]] = [
        {
            "x": x,
            "y": values[drawn, option] * 100,
            "stackgroup": "choices",
            "mode": "lines",
            "line": {"width": 1, "color": GROUND},
            "fillcolor": COLOURS[option % len(COLOURS)],
            "name": name,
            "hovertemplate": "%{y:.1f} %",
        }
        for option, name in enumerate(options)
    ]
    return Figure(
        position[0].upper() + position[1:],
        traces,
        {
            "xaxis": {
                "title": {"text": "samples drawn"},
                "tickformat": ",d",
                "range": [0, samples],
                "nticks": 6,
                "unifiedhovertitle": {"text": "around sample %{x:,d}"},
            },
            "yaxis": {"title": {"text": f"{what} (%)"}, "range": [0, 100]},
            "hovermode": "x unified",
            "showlegend": False,
        },
        height=250,
    )
