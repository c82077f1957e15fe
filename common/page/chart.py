"""Traces and layouts of charts, as the dicts that Plotly reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from common.page.palette import GREY, VERMILLION

Values = Sequence[Any]


def line(
    name: str, x: Values, y: Values, *, mode: str = "lines", text: Values = (), **style: Any
) -> dict[str, Any]:
    """A line through points; `style` has Plotly's names, such as `color`, `dash` and `shape`."""
    return _trace("scatter", name, x, y, mode=mode, text=text, line=style)


def points(name: str, x: Values, y: Values, *, text: Values = (), **style: Any) -> dict[str, Any]:
    """Points without a line; `style` has Plotly's names, such as `color`, `symbol` and `size`."""
    return _trace("scatter", name, x, y, mode="markers", text=text, marker=style)


def bars(name: str, x: Values, y: Values, **style: Any) -> dict[str, Any]:
    """Bars from 0; `style` has Plotly's names, such as `color`."""
    return _trace("bar", name, x, y, marker=style)


def diagonal(least: float, most: float) -> dict[str, Any]:
    """A dotted line from the smallest value to the largest, on which both axes are equal."""
    return line("equal", [least, most], [least, most], dash="dot", color=GREY)


def limit(
    axis: str, value: float, *, color: str = VERMILLION, dash: str = "dash"
) -> dict[str, Any]:
    """The shape of a line across the whole chart where the axis, `x` or `y`, has this value."""
    other = "y" if axis == "x" else "x"
    ends = {
        f"{axis}0": value,
        f"{axis}1": value,
        f"{other}ref": "paper",
        f"{other}0": 0,
        f"{other}1": 1,
    }
    return {"type": "line", **ends, "line": {"color": color, "dash": dash, "width": 1.5}}


def axes(
    x: str = "", y: str = "", *, log: str = "", from_0: str = "", **layout: Any
) -> dict[str, Any]:
    """A layout with titles of the axes.

    `log` names the logarithmic axes, such as `xy`, and `from_0` those that begin at 0.
    """
    for name, title in (("x", x), ("y", y)):
        axis: dict[str, Any] = {"title": {"text": title}} if title else {}
        if name in log:
            axis["type"] = "log"
        if name in from_0:
            axis["rangemode"] = "tozero"
        if axis:
            layout[f"{name}axis"] = axis
    return layout


def _trace(kind: str, name: str, x: Values, y: Values, **more: Any) -> dict[str, Any]:
    trace = {"type": kind, "name": name, "x": x, "y": y}
    return trace | {key: value for key, value in more.items() if value}
