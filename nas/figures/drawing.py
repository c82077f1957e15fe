"""A chart drawn by matplotlib as wide as a column, as SVG and PDF whose text stays text.

What a page shows by hovering and zooming is drawn in the figure: an axis of a gap is logarithmic, and points
outside the axes are counted.
"""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from edgenas_core.command.plug_ins import how_to_install
from edgenas_core.files.atomic_file import replacing
from edgenas_core.page.palette import BAND_OPACITY, COLOURS, SERIES
from edgenas_core.types.errors import UserError
from nas.figures.charts import Chart, plain

WIDTH_MM = 84.0
"""Width of a column of two in most proceedings (IEEE 88.9, ACM 84.5, Springer 84)."""
FORMATS = ("svg", "pdf")

_HEIGHT_MM = 62.0
_STYLE: Any = {
    "font.size": 7.5,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.fontsize": 6.5,
    "legend.frameon": False,
    "lines.linewidth": 1.1,
    "pdf.fonttype": 42,  # TrueType: publishers refuse Type 3
    "svg.fonttype": "none",
    "text.parse_math": False,  # a dollar in the name of a class is a dollar
    "svg.hashsalt": "edgenas",  # equal charts give equal files
}
_DASHES = {"dash": "--", "dot": ":", "dashdot": "-."}
_SYMBOLS = {"star": "*", "circle-open": "o", "diamond": "D", "circle": "o"}
_COLOUR = re.compile(r"var\(--([a-z0-9-]+?)(-band)?\)")
_CUT = (4.0, 96.0)
"""Percentiles of the points at which an axis without limits of its own ends, if the rest is far beyond."""
_FEWEST = 20  # points, for percentiles
_TITLE = 34  # characters of a line of an axis title


def draw(chart: Chart, folder: Path) -> list[Path]:
    """Write a chart as one file a format; returns their paths.

    Raises:
      UserError: if matplotlib is not installed.
      OSError: if a file cannot be written.
    """
    paths = []
    for suffix in FORMATS:
        paths.append(folder / f"{chart.name}.{suffix}")
        with replacing(paths[-1]) as file:
            file.write(drawn(chart, suffix))
    return paths


def drawn(chart: Chart, suffix: str) -> bytes:
    """A chart as a file of this format; equal charts give equal bytes.

    Raises:
      UserError: if matplotlib is not installed.
    """
    try:
        import matplotlib as mpl  # noqa: PLC0415 - an extra
        from matplotlib.figure import Figure  # noqa: PLC0415 - loaded when needed
    except ImportError as error:
        raise UserError(f"figures need matplotlib: {how_to_install('figures')}") from error
    content = io.BytesIO()
    with mpl.rc_context(_STYLE):
        size = (WIDTH_MM / 25.4, _HEIGHT_MM / 25.4)
        figure = Figure(size, layout="constrained")
        axes = figure.add_subplot()
        for number, trace in enumerate(chart.traces):
            _add(trace, axes, figure, SERIES[number % len(SERIES)])
        _lay_out(chart, axes, figure)
        metadata = {"Date": None} if suffix == "svg" else {"CreationDate": None}
        figure.savefig(content, format=suffix, metadata=metadata)
    return content.getvalue()


def _add(trace: Mapping[str, Any], axes: Any, figure: Any, colour: str) -> None:
    """Draw one of Plotly's traces."""
    if trace.get("type") == "heatmap":
        _add_heat_map(trace, axes)
        return
    x, y = _values(trace["x"]), _values(trace["y"])
    line, marker = trace.get("line") or {}, trace.get("marker") or {}
    name = plain(str(trace.get("name") or "")) if trace.get("showlegend", True) else ""
    label = name or "_nolegend_"
    if trace.get("stackgroup"):  # shares that add up to 100 %
        below = getattr(axes, "edgenas_stacked", np.zeros(len(x)))
        fill = _colour(trace.get("fillcolor", colour))
        axes.fill_between(x, below, below + y, color=fill, linewidth=0, label=label)
        axes.edgenas_stacked = below + y
        return
    if trace.get("fill") == "tonexty":  # a band: the trace before is its other edge
        other = axes.edgenas_edge
        axes.fill_between(x, other, y, color=_colour(trace["fillcolor"]), linewidth=0, label=label)
        return
    if line.get("width") == 0:
        axes.edgenas_edge = y
        return
    mode = trace.get("mode", "lines")
    if "lines" in mode:
        axes.plot(
            x,
            y,
            color=_colour(line.get("color", colour)),
            linestyle=_DASHES.get(line.get("dash", ""), "-"),
            drawstyle="steps-post" if line.get("shape") == "hv" else "default",
            marker="." if "markers" in mode else "",
            markersize=3,
            label=label,
        )
        return
    _add_points(x, y, marker, (axes, figure), colour, label)


def _add_points(  # noqa: PLR0917 - called above alone
    x: Any, y: Any, marker: Mapping[str, Any], place: tuple[Any, Any], colour: str, label: str
) -> None:
    axes, figure = place
    symbol = str(marker.get("symbol", "circle"))
    size = (float(marker.get("size", 6)) / 2.2) ** 2
    style: dict[str, Any] = {"marker": _SYMBOLS.get(symbol, "o"), "s": size, "label": label}
    colours = marker.get("color", colour)
    if not isinstance(colours, str):  # a number a point
        from matplotlib.colors import LinearSegmentedColormap  # noqa: PLC0415 - loaded when needed

        names = [_colour(each) for _, each in marker["colorscale"]]
        scale = LinearSegmentedColormap.from_list("edgenas", names)
        dots = axes.scatter(x, y, c=_values(colours), cmap=scale, linewidths=0, **style)
        title = ((marker.get("colorbar") or {}).get("title") or {}).get("text", "")
        figure.colorbar(dots, ax=axes, label=plain(title), aspect=30, pad=0.02)
    elif symbol.endswith("-open"):
        edge = _colour(colours)
        axes.scatter(x, y, facecolors="none", edgecolors=edge, linewidths=1, zorder=3, **style)
    else:
        above = 3 if symbol == "star" else 1
        axes.scatter(x, y, color=_colour(colours), linewidths=0, zorder=above, **style)


def _add_heat_map(trace: Mapping[str, Any], axes: Any) -> None:
    """Counts of a confusion matrix, each in its cell."""
    from matplotlib.colors import LinearSegmentedColormap  # noqa: PLC0415 - loaded when needed

    names = [COLOURS[f"scale-{i}"][0] for i in range(5)]
    scale = LinearSegmentedColormap.from_list("edgenas", names)
    shades = np.array(trace["z"], dtype=float)
    axes.imshow(shades, cmap=scale, aspect="auto", vmin=0, vmax=float(trace["zmax"]))
    for place, text in np.ndenumerate(np.array(trace.get("text", np.empty((0, 0))), dtype=str)):
        dark = shades[place] > float(trace["zmax"]) / 2
        axes.text(place[1], place[0], text, ha="center", va="center", color="w" if dark else "k")
    for axis, key in ((axes.xaxis, "x"), (axes.yaxis, "y")):
        labels = [plain(str(each)) for each in trace[key]]
        axis.set_ticks(range(len(labels)), labels)
    axes.tick_params(axis="x", rotation=90)


def _lay_out(chart: Chart, axes: Any, figure: Any) -> None:
    """Titles, limits and scales of the axes, lines of limits, and the legend above the chart."""
    beyond = 0
    for axis in ("x", "y"):
        layout = chart.layout.get(f"{axis}axis") or {}
        title = plain(str((layout.get("title") or {}).get("text", "")))
        getattr(axes, f"set_{axis}label")(textwrap.fill(title, _TITLE))
        numbers = _drawn(chart, axis)
        is_gap = axis == "y" and title.startswith("gap")
        if is_gap and len(numbers) and numbers.max() > 0:
            # a gap of 0 is drawn at the lower edge, where a logarithm has no place for it
            least = float(numbers[numbers > 0].min())
            axes.set_yscale("symlog", linthresh=least)
            axes.set_ylim(bottom=0)
        elif layout.get("type") == "log":
            getattr(axes, f"set_{axis}scale")("log")
        elif (limits := layout.get("range") or _limits(numbers)) is not None:
            getattr(axes, f"set_{axis}lim")(*limits)
            beyond += int(((numbers < min(limits)) | (numbers > max(limits))).sum())
    for shape in chart.layout.get("shapes") or ():
        is_level = shape.get("y0") == shape.get("y1") and shape.get("xref") == "paper"
        draw_line = axes.axhline if is_level else axes.axvline
        draw_line(
            shape["y0"] if is_level else shape["x0"], color=_colour("var(--vermillion)"), ls="--"
        )
    for note in chart.layout.get("annotations") or ():
        across = axes.get_yaxis_transform() if note.get("xref") == "paper" else None
        across = axes.get_xaxis_transform() if note.get("yref") == "paper" else across
        place = (
            (note["x"], max(note["y"], 0.02)) if note.get("yref") == "paper" else (0.99, note["y"])
        )
        side = "left" if note.get("yref") == "paper" else "right"
        text, red = plain(str(note["text"])), _colour("var(--vermillion)")
        axes.text(
            *place, f" {text}", transform=across, color=red, ha=side, va="bottom", fontsize=6.5
        )
    if beyond:
        text = f"{beyond:,} points outside"
        axes.text(0.99, 0.01, text, transform=axes.transAxes, ha="right", va="bottom", fontsize=6)
    handles, labels = axes.get_legend_handles_labels()
    if len(handles) > 1:
        figure.legend(handles, labels, loc="outside upper left", ncols=2, columnspacing=1)


def _drawn(chart: Chart, axis: str) -> Any:
    """Numbers of all points and lines along an axis."""
    parts = [_values(each[axis]) for each in chart.traces if each.get("type") != "heatmap"]
    numbers = [part for part in parts if part.dtype.kind in "iuf"]
    whole = np.concatenate([*numbers, np.empty(0)])
    return whole[np.isfinite(whole)]


def _limits(drawn: Any) -> tuple[float, float] | None:
    """Limits that leave a few points outside, if these would take a third of the axis; None if they would not."""
    if len(drawn) < _FEWEST:
        return None
    low, high = np.percentile(drawn, _CUT).tolist()
    span, least, most = high - low, float(drawn.min()), float(drawn.max())
    if span <= 0 or (low - least < span / 2 and most - high < span / 2):
        return None
    room = 0.05 * span
    return (
        (low if low - least >= span / 2 else least) - room,
        (high if most - high >= span / 2 else most) + room,
    )


def _values(values: Any) -> Any:
    return np.asarray(values, dtype=float) if not _is_text(values) else np.asarray(values)


def _is_text(values: Any) -> bool:
    return len(values) > 0 and isinstance(values[0], str)


def _colour(name: str) -> Any:
    """A colour of the palette on white paper, or Plotly's own as it is."""
    found = _COLOUR.fullmatch(name)
    if found is None:
        return name
    light = COLOURS[found[1]][0]
    return (light, BAND_OPACITY) if found[2] else light
