"""Charts as JSON, with shortened numbers and without characters that could end a script element."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

DIGITS = 7
"""Significant digits of a float; more than a screen shows."""


def chart_json(value: Any) -> str:
    """Return dicts, sequences, NumPy arrays and Plotly objects as JSON; NaN and infinity become null."""
    text = json.dumps(_plain(value), separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _plain(value: Any) -> Any:
    if isinstance(value, str | bool | int | None):
        return value
    if isinstance(value, float):
        return _short(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if hasattr(value, "to_plotly_json"):
        return _plain(value.to_plotly_json())
    return [_plain(item) for item in value]


def _short(number: float) -> float | int | None:
    if not math.isfinite(number):
        return None
    rounded = float(f"{number:.{DIGITS}g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded
