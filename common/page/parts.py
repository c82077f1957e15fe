"""Parts of the sections of a page. Plain text is a paragraph; all text is escaped.

Text between backticks is set as code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Protocol, final, runtime_checkable
from xml.etree.ElementTree import Element, tostring

from common.page.chart_json import chart_json
from common.page.markup import LONG, inline, name_text

Naming = Callable[[str], str]
"""Returns a unique `id` for a title."""


@runtime_checkable
class Part(Protocol):
    """An element of a section."""

    def html(self, name: Naming) -> str:
        """The part as HTML."""


@final
@dataclass(frozen=True)
class Figure:
    """A Plotly chart: traces and a layout as dicts, arrays or Plotly's own objects.

    Colours are those of `common.page.palette`. Texts inside the chart that may hold `<` or `&` go
    through `common.page.markup.chart_text`.
    """

    title: str
    data: Sequence[Any]
    layout: Mapping[str, Any]
    caption: str = ""
    height: int = 400  # pixels

    def html(self, name: Naming) -> str:
        """The figure with its chart as JSON, which `page.js` draws."""
        chart = chart_json({"data": self.data, "layout": self.layout})
        here = name(self.title)
        return (
            f'<figure aria-labelledby="{here}">\n'
            f'<h3 id="{here}">{inline(self.title)}</h3>\n'
            f'<div class="chart" role="img" aria-labelledby="{here}"'
            f' style="height:{self.height:d}px">'
            f'<script type="application/json">{chart}</script></div>\n'
            f"{_caption(self.caption)}</figure>\n"
        )


@final
@dataclass(frozen=True)
class Slider:
    """A bound that the reader moves, and the text of the last step within it."""

    title: str
    name: str  # of the bound
    unit: str
    steps: Sequence[tuple[float, str]]  # least bound of each plain text, ascending; one or more
    start: float  # bound at first; without JavaScript the only one
    below: str  # text while no step is within the bound
    caption: str = ""

    def html(self, name: Naming) -> str:
        """The slider with its steps as JSON, which `page.js` reads."""
        here = name(self.title)
        least, most = 0.9 * self.steps[0][0], 1.05 * self.steps[-1][0]
        start = min(max(self.start, least), most)
        within = [text for bound, text in self.steps if bound <= start]
        return (
            f'<figure class="slider" aria-labelledby="{here}" data-unit="{escape(self.unit)}"'
            f' data-below="{escape(self.below)}">\n<h3 id="{here}">{inline(self.title)}</h3>\n'
            f'<label hidden>{inline(self.name)} <input type="range" min="{least:.6g}"'
            f' max="{most:.6g}" step="any" value="{start:.6g}"> <output></output></label>\n'
            f'<p aria-live="polite">{name_text(within[-1] if within else self.below)}</p>\n'
            f'<script type="application/json">{chart_json(self.steps)}</script>\n'
            f"{_caption(self.caption)}</figure>\n"
        )


@final
@dataclass(frozen=True)
class Legend:
    """A common legend of several figures."""

    colours: Mapping[str, str]  # a name -> one of the palette

    def html(self, name: Naming) -> str:  # noqa: ARG002 - it has no title
        """A row of names beside their colours."""
        entries = "".join(
            f'<li><span style="background:{escape(colour)}"></span>{inline(text)}</li>\n'
            for text, colour in self.colours.items()
        )
        return f'<ul class="legend">\n{entries}</ul>\n'


@final
@dataclass(frozen=True)
class Drawing:
    """An inline SVG; its colours are those of `common.page.palette`, its ids are the caller's."""

    title: str
    svg: Element  # with a viewBox
    description: str  # what it shows, for those who cannot see it
    caption: str = ""

    def html(self, name: Naming) -> str:
        """The figure, with the drawing in its own size or scaled to the width of the page."""
        here = name(self.title)
        svg = tostring(self.svg, encoding="unicode")
        return (
            f'<figure aria-labelledby="{here}">\n'
            f'<h3 id="{here}">{inline(self.title)}</h3>\n'
            f'<div class="drawing" role="img" aria-label="{escape(self.description)}">{svg}</div>\n'
            f"{_caption(self.caption)}</figure>\n"
        )


@final
@dataclass(frozen=True)
class Table:
    """Rows of texts and numbers; numbers are aligned right, and a click on a header sorts."""

    header: Sequence[str]
    rows: Sequence[Sequence[str | float | None]]
    caption: str = ""

    def html(self, name: Naming) -> str:
        """The table, in a box that scrolls if it is wider than the screen.

        Raises:
          ValueError: if a row is not as long as the header.
        """
        rows = [[_cell(value) for value in row] for row in self.rows]
        for row in rows:
            if len(row) != len(self.header):
                raise ValueError(f"a row has {len(row)} cells, the header {len(self.header)}")
        right = [
            bool(rows) and all(_NUMERIC.match(row[i]) for row in rows)
            for i in range(len(self.header))
        ]
        sides = [' class="number"' if is_right else "" for is_right in right]
        cells = [
            ' class="long"' if self._is_long(rows, i) and not right[i] else side
            for i, side in enumerate(sides)
        ]
        # on a narrow screen, the rows of a wide table become lists of names and values
        is_wide = len(self.header) > _FEW_COLUMNS and len(rows) <= _FEW_ROWS
        labels = [f' data-label="{escape(text)}"' if is_wide else "" for text in self.header]
        here = name(self.caption or self.header[0])
        head = "".join(
            f'<th scope="col"{side}>{inline(text)}</th>'
            for text, side in zip(self.header, sides, strict=True)
        )
        body = "".join(
            "<tr>"
            + "".join(
                f"<td{side}{label}>{inline(_unbroken(text)) if is_right else name_text(text)}</td>"
                for text, side, label, is_right in zip(row, cells, labels, right, strict=True)
            )
            + "</tr>\n"
            for row in rows
        )
        label = escape(self.caption or "table")
        kind = ' class="wide"' if is_wide else ""
        return (
            f'<figure class="table" id="{here}">\n'
            f'<div class="scroll" role="region" tabindex="0" aria-label="{label}">'
            f"<table{kind}>\n"
            f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table></div>\n"
            f"{_caption(self.caption)}</figure>\n"
        )

    @staticmethod
    def _is_long(rows: Sequence[Sequence[str]], column: int) -> bool:
        """Whether a column holds long names, or long code; other text breaks anywhere."""
        return any(
            len(row[column]) > LONG and (column == 0 or row[column].startswith("`")) for row in rows
        )


@final
@dataclass(frozen=True)
class Facts:
    """Names and values, such as the provenance of numbers."""

    facts: Mapping[str, str]

    def html(self, name: Naming) -> str:  # noqa: ARG002 - it has no title
        """A list of terms."""
        rows = "".join(
            f"<div><dt>{inline(key)}</dt><dd>{inline(value)}</dd></div>\n"
            for key, value in self.facts.items()
        )
        return f'<dl class="facts">\n{rows}</dl>\n'


@final
@dataclass(frozen=True)
class Note:
    """An important remark, such as that numbers are predictions."""

    text: str

    def html(self, name: Naming) -> str:  # noqa: ARG002 - it has no title
        """A highlighted paragraph."""
        return f'<p class="note" role="note">{inline(self.text)}</p>\n'


@final
@dataclass(frozen=True)
class Listing:
    """A preformatted text, such as a configuration, folded until it is opened."""

    title: str
    text: str

    def html(self, name: Naming) -> str:  # noqa: ARG002 - nothing points to it
        """A foldable block."""
        return (
            f"<details><summary>{inline(self.title)}</summary>"
            f'<pre tabindex="0">{escape(self.text)}</pre></details>\n'
        )


@final
@dataclass(frozen=True)
class Columns:
    """Parts beside each other if the page is wide enough, else below each other."""

    parts: Sequence[Part | str]
    least_width: int = 400  # pixels of a column

    def html(self, name: Naming) -> str:
        """A grid."""
        return (
            f'<div class="columns" style="--least:{self.least_width:d}px">\n'
            f"{render(self.parts, name)}</div>\n"
        )


def render(parts: Sequence[Part | str], name: Naming) -> str:
    """Render parts one after another; a text becomes a paragraph."""
    if isinstance(parts, str):  # which is a sequence of texts, too
        parts = [parts]
    return "".join(
        f"<p>{inline(part)}</p>\n" if isinstance(part, str) else part.html(name) for part in parts
    )


_FEW_COLUMNS, _FEW_ROWS = 4, 40

_NUMERIC = re.compile(
    r"(below )?[-+~\u2212]?[\d.]|-?$|\u2013$|(nan|inf|none)$|(never|unknown)( [\[(]|$)"
)
"""True for a number, or for a text that stands for a missing number."""


def _cell(value: str | float | None) -> str:
    return "" if value is None else str(value)


def _unbroken(number: str) -> str:
    """A number that may break into lines only before its interval."""
    return number.replace(" ", "\u00a0").replace("\u00a0[", " [")


def _caption(text: str) -> str:
    return f"<figcaption>{inline(text)}</figcaption>\n" if text else ""
