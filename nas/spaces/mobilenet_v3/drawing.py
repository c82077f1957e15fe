"""Drawing of a network: a row for each stage, a box for each block.

A box is as wide as the block's expansion and as high as its kernel, which its colour repeats.
"""

from __future__ import annotations

from xml.etree.ElementTree import Element, SubElement

from common.page.palette import BLUE, FAINT, GROUND, INK, LINE, SKY, VERMILLION
from common.page.parts import Drawing
from nas.spaces.mobilenet_v3.layers import Block, Widths
from nas.spaces.mobilenet_v3.space import EXPANSIONS, KERNELS, MOST_BLOCKS

_CAPTION = "A box is a block with its kernel and its expansion: as high as the kernel, as wide as the expansion."
_COLOURS = dict(zip(KERNELS, (SKY, BLUE, VERMILLION), strict=True))
_LEFT, _TOP, _ROW, _GAP = 178.0, 58.0, 62.0, 8.0
_PER_EXPANSION, _PER_KERNEL = 20.0, 7.0  # pixels of a box
_WIDTH = _LEFT + MOST_BLOCKS * (max(EXPANSIONS) * _PER_EXPANSION + _GAP) + 12


def draw_network(
    title: str, image: int, stages: list[list[Block]], channels: Widths, description: str
) -> Drawing:
    """Draw a network whose stages hold these blocks, for images of a side in pixels."""
    height = _TOP + _ROW * len(stages) + 34
    svg = Element(
        "svg",
        {
            "viewBox": f"0 0 {_WIDTH:g} {height:g}",
            "width": f"{_WIDTH:g}",
            "height": f"{height:g}",
            "font-size": "14",
        },
    )
    _text(svg, 4.0, 22.0, f"image {image} x {image}", INK)
    _text(
        svg,
        _LEFT,
        22.0,
        f"3x3 stem, {channels.stem} channels, and a 3x3 block without expansion",
        FAINT,
    )
    for number, blocks in enumerate(stages):
        _stage(svg, _TOP + _ROW * number, number + 1, blocks)
    below = _TOP + _ROW * len(stages)
    _text(
        svg,
        _LEFT,
        below + 14,
        f"1x1 to {channels.final} and {channels.features} channels, classifier",
        FAINT,
    )
    return Drawing(title, svg, description, _CAPTION)


def _stage(svg: Element, top: float, number: int, blocks: list[Block]) -> None:
    middle, last = top + _ROW / 2, blocks[-1]
    _line(svg, 0.0, top, _WIDTH)
    _text(svg, 4.0, middle - 10, f"stage {number}, {last.output_side} x {last.output_side}", INK)
    extras = ", squeeze" if last.squeeze else ""
    _text(svg, 4.0, middle + 10, f"{last.outputs} channels{extras}", FAINT)
    x = _LEFT
    for block in blocks:
        expansion = block.hidden // block.inputs
        _box(svg, x, middle, block.kernel, expansion)
        label = f"{block.kernel}x{block.kernel}, {expansion}"
        _text(svg, x + expansion * _PER_EXPANSION / 2, middle, label, INK, anchor="middle")
        x += expansion * _PER_EXPANSION + _GAP


def _box(svg: Element, x: float, middle: float, kernel: int, expansion: int) -> None:
    height = kernel * _PER_KERNEL
    shape = {
        "x": f"{x:g}",
        "y": f"{middle - height / 2:g}",
        "width": f"{expansion * _PER_EXPANSION:g}",
        "height": f"{height:g}",
        "rx": "4",
    }
    SubElement(svg, "rect", {**shape, "fill": GROUND})
    fill = {"fill": _COLOURS[kernel], "fill-opacity": "0.18", "stroke": _COLOURS[kernel]}
    SubElement(svg, "rect", {**shape, **fill, "stroke-width": "2"})


def _line(svg: Element, x: float, y: float, length: float) -> None:
    ends = {"x1": f"{x:g}", "x2": f"{x + length:g}", "y1": f"{y:g}", "y2": f"{y:g}"}
    SubElement(svg, "line", {**ends, "stroke": LINE, "stroke-width": "1"})


def _text(
    svg: Element, x: float, y: float, text: str, colour: str, *, anchor: str = "start"
) -> None:
    place = {"x": f"{x:g}", "y": f"{y:g}", "dy": "0.35em", "text-anchor": anchor, "fill": colour}
    SubElement(svg, "text", place).text = text
