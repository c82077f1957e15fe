"""Drawing of a cell: four nodes from top to bottom, and six labelled edges."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from jaxtyping import Int64
from numpy import ndarray

from edgenas_core.page.palette import BLUE, FAINT, GREY, GROUND, INK, LINE, ORANGE, SKY, VERMILLION
from edgenas_core.page.parts import Drawing
from nas.spaces.nas_bench_201.space import EDGES, NAS_BENCH_201, OPERATIONS
from nas.spaces.svg import canvas, draw, write

_COLOURS = (GREY, SKY, ORANGE, VERMILLION, BLUE)
_SHORT_NAMES = ("none", "skip", "conv 1x1", "conv 3x3", "avg pool 3x3")
"""Colour and name of each of `OPERATIONS`."""

_WIDTH, _HEIGHT = 414.0, 500.0
_NODES = ("input", "1", "2", "output")
_X, _TOP, _DISTANCE, _RADIUS = 234.0, 34.0, 144.0, 24.0
_BOWS = {(0, 2): -104.0, (1, 3): 104.0, (0, 3): -176.0}
"""Horizontal offset of the middle of an edge that passes other nodes."""


def draw_cell(title: str, architecture: Int64[ndarray, "6"]) -> Drawing:
    """Draw a cell; an edge on no path from input to output is dashed, an edge of `none` dotted."""
    svg = canvas(_WIDTH, _HEIGHT)
    live = NAS_BENCH_201.live_edges(architecture)
    order = sorted(range(len(EDGES)), key=lambda number: bool(live[number]))  # live ones on top
    for number in order:
        _edge(svg, EDGES[number], int(architecture[number]), is_live=bool(live[number]))
    for number in order:
        _label(svg, EDGES[number], int(architecture[number]), is_live=bool(live[number]))
    for node, name in enumerate(_NODES):
        _node(svg, node, name)
    edges = ", ".join(
        f"{source} to {target} {OPERATIONS[choice]}"
        for (source, target), choice in zip(EDGES, architecture, strict=True)
    )
    return Drawing(title, svg, f"Graph of the cell: {edges}")


def _y(node: int) -> float:
    return _TOP + node * _DISTANCE


def _edge(svg: Element, edge: tuple[int, int], choice: int, *, is_live: bool) -> None:
    source, target = edge
    colour = _COLOURS[choice] if is_live else LINE
    bow = _BOWS.get(edge, 0.0)
    # the middle of a Bezier curve lies at three quarters of the offset of its two handles
    handle = _X + bow * 4 / 3
    start, end = _y(source), _y(target)
    if bow:
        side = _RADIUS if bow > 0 else -_RADIUS
        path = (
            f"M{_X + side * 0.7:g} {start + _RADIUS * 0.7:g}"
            f"C{handle:g} {start + 50:g} {handle:g} {end - 50:g} "
            f"{_X + side * 0.95:g} {end - _RADIUS * 0.55:g}"
        )
    else:
        path = f"M{_X:g} {start + _RADIUS:g}V{end - _RADIUS:g}"
    line = draw(
        svg, "path", d=path, fill="none", stroke=colour, stroke_width=4.0 if is_live else 2.0
    )
    if not is_live:
        line.set("stroke-dasharray", "1 6" if OPERATIONS[choice] == "none" else "6 5")
        line.set("stroke-linecap", "round")


def _label(svg: Element, edge: tuple[int, int], choice: int, *, is_live: bool) -> None:
    source, target = edge
    x, y = _X + _BOWS.get(edge, 0.0), (_y(source) + _y(target)) / 2
    name = _SHORT_NAMES[choice]
    width = 8 * len(name) + 14
    draw(
        svg,
        "rect",
        x=x - width / 2,
        y=y - 13,
        width=float(width),
        height=26.0,
        rx=13.0,
        fill=GROUND,
        stroke=_COLOURS[choice] if is_live else LINE,
        stroke_width=1.5 if is_live else 1.0,
    )
    text = write(svg, x, y, name, INK if is_live else FAINT)
    text.set("text-anchor", "middle")


def _node(svg: Element, node: int, name: str) -> None:
    draw(svg, "circle", cx=_X, cy=_y(node), r=_RADIUS, fill=GROUND, stroke=INK, stroke_width=2.0)
    text = write(svg, _X, _y(node), name, INK)
    text.set("text-anchor", "middle")
    if len(name) > 1:
        text.set("font-size", "12")
