"""The line of a chart on which two axes agree."""

from __future__ import annotations

from typing import Any

from runtime.page.palette import GREY


def diagonal(least: float, most: float) -> dict[str, Any]:
    """Dotted, from the least value to the most."""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "equal",
        "line": {"dash": "dot", "color": GREY},
        "x": [least, most],
        "y": [least, most],
    }
