"""The diagonal of a chart, on which both axes have the same value."""

from __future__ import annotations

from typing import Any

from runtime.page.palette import GREY


def diagonal(least: float, most: float) -> dict[str, Any]:
    """A dotted line from the smallest value to the largest."""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "equal",
        "line": {"dash": "dot", "color": GREY},
        "x": [least, most],
        "y": [least, most],
    }
