"""The limit, where latency is the horizontal axis."""

from __future__ import annotations

from typing import Any

from common.page.chart import limit
from common.page.palette import GROUND, VERMILLION
from nas.report.wording import Wording


def limit_line(limit_ms: float, wording: Wording) -> dict[str, Any]:
    """Parts of a layout: a dashed line, and its name beside it."""
    return {
        "shapes": [limit("x", limit_ms)],
        "annotations": [
            {
                "x": limit_ms,
                "xanchor": "left",
                "xshift": 4,
                "y": 0,
                "yref": "paper",
                "yanchor": "bottom",
                "showarrow": False,
                "text": wording.limit,
                "bgcolor": GROUND,
                "font": {"color": VERMILLION, "size": 12},
            }
        ],
    }
