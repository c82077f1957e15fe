"""Which operation each edge takes, over the samples: the policy's probabilities, or the shares."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from nas.report.wording import OPERATION_NAMES
from nas.spaces.nas_bench_201.space import EDGES
from nas.trials.choice_history import OperationHistory
from runtime.page.palette import BLUE, GREY, GROUND, ORANGE, SKY, VERMILLION
from runtime.page.parts import Columns, Figure, Legend, Part

OPERATION_COLOURS = (GREY, SKY, ORANGE, VERMILLION, BLUE)
"""In the order of `nas.spaces.nas_bench_201.space.OPERATIONS`."""


def operations(history: OperationHistory) -> list[Part | str]:
    """What it is, and a figure an edge."""
    edges, values = history.edges, history.means()
    if not history.has_policy:
        text = (
            "This searcher has no policy, so these are the shares of the operations that it "
            "sampled on each edge."
        )
        what = "share of the samples"
    else:
        text = (
            "What the policy drew each edge's operation by: the mean over the samples of a bin "
            "of the probabilities that they were drawn with."
        )
        what = "probability"
    middles = (edges[:-1] + edges[1:]) / 2
    figures = [
        _edge(edge, middles, values[:, number], what, int(edges[-1]))
        for number, edge in enumerate(EDGES)
    ]
    colours = dict(zip(OPERATION_NAMES, OPERATION_COLOURS, strict=True))
    return [text, Legend(colours), Columns(figures, least_width=300)]


def _edge(
    edge: tuple[int, int],
    middles: Float64[ndarray, "bins"],
    values: Float64[ndarray, "bins 5"],
    what: str,
    samples: int,
) -> Figure:
    known = np.flatnonzero(~np.isnan(values[:, 0]))  # a large batch leaves bins without any
    drawn = known[[0, *range(len(known)), -1]]  # the first and the last bin reach the ends
    x = np.concatenate([[0.0], middles[known], [float(samples)]])
    traces: list[dict[str, Any]] = [
        {
            "x": x,
            "y": values[drawn, choice] * 100,
            "stackgroup": "operations",
            "mode": "lines",
            "line": {"width": 1, "color": GROUND},
            "fillcolor": colour,
            "name": OPERATION_NAMES[choice],
            "hovertemplate": "%{y:.1f} %",
        }
        for choice, colour in enumerate(OPERATION_COLOURS)
    ]
    return Figure(
        f"Edge {edge[0]} → {edge[1]}",
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
