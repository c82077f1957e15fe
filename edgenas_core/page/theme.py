"""Default layout of charts, as a Plotly template; colours are names of the palette."""

from __future__ import annotations

from typing import Any

from edgenas_core.page.palette import FAINT, GROUND, INK, LINE, SEQUENTIAL, SERIES

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Helvetica Neue', sans-serif"

_AXIS: dict[str, Any] = {
    "gridcolor": LINE,
    "linecolor": LINE,
    "zeroline": False,
    "ticks": "outside",
    "ticklen": 4,
    "tickcolor": LINE,
    "tickfont": {"color": FAINT, "size": 12},
    "title": {"font": {"color": INK, "size": 13}, "standoff": 8},
    "automargin": True,
}
_COLOUR_BAR = {
    "thickness": 12,
    "outlinewidth": 0,
    "tickfont": {"color": FAINT, "size": 12},
    "title": {"font": {"color": INK, "size": 12}, "side": "top"},
}

THEME: dict[str, Any] = {
    "layout": {
        "paper_bgcolor": "rgba(0,0,0,0)",  # what is behind the chart shows through
        "plot_bgcolor": "rgba(0,0,0,0)",
        "colorway": list(SERIES),
        "font": {"family": FONT, "size": 13, "color": INK},
        "margin": {"l": 60, "r": 24, "t": 12, "b": 48},
        "xaxis": _AXIS,
        "yaxis": _AXIS,
        "hovermode": "closest",
        "hoverlabel": {
            "bgcolor": GROUND,
            "bordercolor": LINE,
            "font": {"family": FONT, "size": 13, "color": INK},
            "align": "left",
            "namelength": -1,
        },
        "legend": {
            "orientation": "h",
            "x": 0,
            "xanchor": "left",
            "y": 1.02,
            "yanchor": "bottom",
            "font": {"size": 12, "color": INK},
            "bgcolor": "rgba(0,0,0,0)",
            "traceorder": "normal",
        },
        "coloraxis": {"colorscale": SEQUENTIAL, "colorbar": _COLOUR_BAR},
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": FAINT, "activecolor": INK},
    },
    "data": {
        "heatmap": [{"colorscale": SEQUENTIAL, "colorbar": _COLOUR_BAR}],
        "scatter": [{"cliponaxis": False}],  # a mark on an axis is drawn whole
    },
}
