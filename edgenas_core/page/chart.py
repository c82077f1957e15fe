"""Traces and layouts of charts, as the dicts that Plotly reads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Real, Shaped
from numpy import ndarray

from edgenas_core.page.palette import GROUND, VERMILLION

Values = Sequence[Any] | Shaped[ndarray, "n"]


def line(
    name: str, x: Values, y: Values, *, mode: str = "lines", text: Values = (), **style: Any
) -> dict[str, Any]:
    """A line through points; `style` has Plotly's names, such as `color`, `dash` and `shape`."""
    return _trace("scatter", name, x, y, mode=mode, text=text, line=style)


def points(name: str, x: Values, y: Values, *, text: Values = (), **style: Any) -> dict[str, Any]:
    """Points without a line; `style` has Plotly's names, such as `color`, `symbol` and `size`."""
    return _trace("scatter", name, x, y, mode="markers", text=text, marker=style)


def limit(axis: str, value: float) -> dict[str, Any]:
    """The shape of a line across the whole chart where the axis, `x` or `y`, has this value."""
    other = "y" if axis == "x" else "x"
    ends = {
        f"{axis}0": value,
        f"{axis}1": value,
        f"{other}ref": "paper",
        f"{other}0": 0,
        f"{other}1": 1,
    }
    return {"type": "line", **ends, "line": {"color": VERMILLION, "dash": "dash", "width": 1.5}}


def limit_line(value: float, name: str) -> dict[str, Any]:
    """Parts of a layout: a dashed line at this value of the horizontal axis, and its name beside it."""
    label = {"x": value, "xanchor": "left", "xshift": 4, "y": 0, "yref": "paper"}
    label |= {"yanchor": "bottom", "showarrow": False, "text": name, "bgcolor": GROUND}
    label |= {"font": {"color": VERMILLION, "size": 12}}
    return {"shapes": [limit("x", value)], "annotations": [label]}


def count_map(x: Values, y: Values, numbers: Real[ndarray, "y x"], title: str) -> dict[str, Any]:
    """A heat map of counts, in logarithmic colours; 0 is left out."""
    most = max(float(numbers.max()), 10.0)
    ticks = [10**power for power in range(math.ceil(math.log10(most)) + 1)]
    with np.errstate(divide="ignore"):
        colours = np.where(numbers > 0, np.log10(numbers), np.nan)
    return {
        "type": "heatmap",
        "x": x,
        "y": y,
        "z": colours,
        "customdata": numbers,
        "zmin": 0,
        "zmax": math.log10(most),
        "xgap": 1,
        "ygap": 1,
        "hoverongaps": False,
        "colorbar": {
            "title": {"text": title},
            "tickvals": [math.log10(tick) for tick in ticks],
            "ticktext": [f"{tick:,}" for tick in ticks],
        },
    }


def axes(x: str, y: str, **layout: Any) -> dict[str, Any]:
    """A layout with titles of the axes."""
    return {"xaxis": {"title": {"text": x}}, "yaxis": {"title": {"text": y}}, **layout}


def _trace(kind: str, name: str, x: Values, y: Values, **more: Any) -> dict[str, Any]:
    trace = {"type": kind, "name": name, "x": x, "y": y}
    return trace | {key: value for key, value in more.items() if value}
