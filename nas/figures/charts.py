"""The charts of a page, read back from its HTML without executing it."""

from __future__ import annotations

import binascii
import json
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any, final

import numpy as np

from edgenas_core.files.safe_file import read_text
from edgenas_core.types.errors import UserError

_CHART = re.compile(
    r'<h3 id="([a-z0-9-]+)">((?:(?!</h3>).)*)</h3>\s*<div class="chart"[^>]*>'
    r'<script type="application/json">(.*?)</script>',
    re.DOTALL,
)
_TAG = re.compile(r"<[^>]*>")


@final
@dataclass(frozen=True)
class Chart:
    """One chart of a page."""

    name: str  # its anchor, for the name of a file
    title: str
    traces: list[dict[str, Any]]  # Plotly's
    layout: dict[str, Any]  # of Plotly


def charts_of(page: Path) -> list[Chart]:
    """Charts of a page in their order.

    Raises:
      UserError: if the page cannot be read, or holds none.
    """
    try:
        charts = list(_read(read_text(page)))
    except (ValueError, TypeError, KeyError, AttributeError, binascii.Error) as error:
        raise UserError(f"{page} holds a chart that cannot be read: {error}") from error
    if not charts:
        raise UserError(f"{page} holds no charts; run= names the folder of a finished run or study")
    return charts


def with_pictures(html: str, picture: Callable[[Chart], bytes]) -> str:
    """A page with an SVG picture for each of its charts, for where no program draws them.

    Raises:
      ValueError: if a chart cannot be read.
    """

    def replaced(found: re.Match[str]) -> str:
        (chart,) = _read(found[0])
        address = b64encode(picture(chart)).decode()
        heading = found[0].partition("</h3>")[0]
        style = "width:100%;max-width:600px;background:#fff"
        return f'{heading}</h3><img alt="" style="{style}" src="data:image/svg+xml;base64,{address}"><div>'

    return _CHART.sub(replaced, html)


def _read(html: str) -> Iterator[Chart]:
    for name, title, text in _CHART.findall(html):
        chart = _arrays(json.loads(text))
        yield Chart(name, plain(title), chart["data"], chart["layout"])


def plain(text: str) -> str:
    """Text of a chart without tags and entities."""
    return unescape(_TAG.sub("", text.replace("<br>", " ")))


def _arrays(value: Any) -> Any:
    """The value with Plotly's binary arrays as NumPy's."""
    if isinstance(value, dict):
        if {"dtype", "bdata"} <= set(value):
            array = np.frombuffer(
                b64decode(value["bdata"], validate=True), np.dtype(value["dtype"])
            )
            shape = [int(size) for size in str(value.get("shape", array.size)).split(",")]
            return array.reshape(shape)
        return {key: _arrays(each) for key, each in value.items()}
    return [_arrays(each) for each in value] if isinstance(value, list) else value
