"""Parts of the sections of a page. Plain text is a paragraph; all text is escaped.

Text between backticks is set as code. `page.html` renders each part by its `kind`.

Charts have one layout, a Plotly template; its colours are names of the palette.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, ClassVar, final
from xml.etree.ElementTree import Element, tostring

from markupsafe import Markup

from edgenas_core.page.markup import LONG
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


class PagePart:
    """An element of a section."""

    kind: ClassVar[str]


@final
@dataclass(frozen=True)
class Figure(PagePart):
    """A Plotly chart: its traces and its layout, as Plotly's own objects or dicts.

    Colours are those of `edgenas_core.page.palette`. Texts inside the chart that may hold `<` or `&` go
    through `edgenas_core.page.markup.chart_text`.
    """

    kind = "figure"
    title: str
    data: Sequence[Any]
    layout: Mapping[str, Any]
    caption: str = ""
    height: int = 400  # pixels

    @property
    def json(self) -> Markup:
        """The chart as JSON that cannot end a script element.

        Raises:
          ValueError: if Plotly does not know a property of a trace or of the layout.
        """
        import plotly.graph_objects as go  # noqa: PLC0415 - only a page with charts waits for it
        from plotly.io.json import to_json_plotly  # noqa: PLC0415 - loaded when needed

        figure = go.Figure(list(self.data), {**self.layout, "template": "none"})
        chart = figure.to_plotly_json()
        chart["layout"]["template"] = _theme()
        return Markup(to_json_plotly(chart))  # noqa: S704 - Plotly escapes <, > and /


@cache
def _theme() -> Any:
    """The theme as Plotly writes it, which takes longer to check than a chart."""
    import plotly.graph_objects as go  # noqa: PLC0415 - loaded when needed

    return go.layout.Template(THEME).to_plotly_json()


@final
@dataclass(frozen=True)
class Pictures(PagePart):
    """Small images beside each other, each with a line below it."""

    kind = "pictures"
    title: str
    images: Sequence[tuple[str, str]]  # `data:` address and text
    caption: str = ""
    are_wide: bool = False


@final
@dataclass(frozen=True)
class Slider(PagePart):
    """A bound that the reader moves, and the text of the last step within it."""

    kind = "slider"
    title: str
    name: str  # of the bound
    unit: str
    steps: Sequence[tuple[float, str]]  # least bound of each plain text, ascending; one or more
    start: float  # bound at first; without JavaScript the only one
    below: str  # text while no step is within the bound
    caption: str = ""

    @property
    def ends(self) -> tuple[float, float]:
        """Least and largest bound that can be chosen."""
        return 0.9 * self.steps[0][0], 1.05 * self.steps[-1][0]

    @property
    def first(self) -> float:
        """The bound at first, within the ends."""
        least, most = self.ends
        return min(max(self.start, least), most)

    @property
    def text(self) -> str:
        """The text at first."""
        within = [text for bound, text in self.steps if bound <= self.first]
        return within[-1] if within else self.below


@final
@dataclass(frozen=True)
class Legend(PagePart):
    """A common legend of several figures."""

    kind = "legend"
    colours: Mapping[str, str]  # a name -> one of the palette


@final
@dataclass(frozen=True)
class Drawing(PagePart):
    """An inline SVG; its colours are those of `edgenas_core.page.palette`, its ids are the caller's."""

    kind = "drawing"
    title: str
    svg: Element  # with a viewBox
    description: str  # what it shows, for those who cannot see it
    caption: str = ""

    @property
    def markup(self) -> Markup:
        """The SVG as text."""
        return Markup(tostring(self.svg, encoding="unicode"))  # noqa: S704 - it is escaped there


@final
@dataclass(frozen=True)
class Link:
    """A cell that leads to another file."""

    text: str
    address: str  # relative to the page

    def __str__(self) -> str:
        return self.text


Cell = str | float | Link | None


@final
@dataclass(frozen=True)
class Table(PagePart):
    """Rows of texts and numbers; numbers are aligned right, and a click on a header sorts.

    Raises:
      ValueError: if a row is not as long as the header.
    """

    kind = "table"
    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    caption: str = ""
    is_filtered: bool = False  # by words that the reader types
    begins_with_names: bool = False  # in the first column, also where they are numbers

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.header):
                raise ValueError(f"a row has {len(row)} cells, the header {len(self.header)}")

    @cached_property
    def texts(self) -> list[list[str]]:
        """The cells as text."""
        return [["" if cell is None else str(cell) for cell in row] for row in self.rows]

    @cached_property
    def classes(self) -> list[str]:
        """Class of each column: `number`, `long` for long names or code, or empty."""
        return [self._class(column) for column in range(len(self.header))]

    @property
    def is_wide(self) -> bool:
        """Whether its rows become lists of names and values on a narrow screen."""
        return len(self.header) > _FEW_COLUMNS and len(self.rows) <= _FEW_ROWS

    def _class(self, column: int) -> str:
        texts = [row[column] for row in self.texts]
        if any(isinstance(row[column], Link) for row in self.rows):
            return "long"
        is_name = self.begins_with_names and column == 0
        if texts and not is_name and all(_NUMERIC.match(text) for text in texts):
            return "number"
        is_long = any(len(text) > LONG and (column == 0 or text.startswith("`")) for text in texts)
        return "long" if is_long else ""


@final
@dataclass(frozen=True)
class Facts(PagePart):
    """Names and values, such as the provenance of numbers."""

    kind = "facts"
    facts: Mapping[str, str]


@final
@dataclass(frozen=True)
class PageNote(PagePart):
    """An important remark, such as that numbers are predictions."""

    kind = "note"
    text: str


@final
@dataclass(frozen=True)
class TextListing(PagePart):
    """A preformatted text, such as a configuration, folded until it is opened."""

    kind = "listing"
    title: str
    text: str


@final
@dataclass(frozen=True)
class Columns(PagePart):
    """Parts beside each other if the page is wide enough, else below each other."""

    kind = "columns"
    parts: Sequence[PagePart | str]
    least_width: int = 400  # pixels of a column


_FEW_COLUMNS, _FEW_ROWS = 4, 40

_NUMERIC = re.compile(
    r"(below )?[-+~\u2212]?[\d.]|-?$|\u2013$|(nan|inf|none)$|(never|unknown)( [\[(]|$)"
)
"""True for a number, or for a text that stands for a missing number."""
