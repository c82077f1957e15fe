"""Drawing of a network: a row for each stage, a box for each block.

A box is as wide as the block's expansion and as high as its kernel, which its colour repeats.
"""

from __future__ import annotations

from xml.etree.ElementTree import Element

from edgenas_core.page.palette import BLUE, FAINT, GROUND, INK, LINE, SKY, VERMILLION
from edgenas_core.page.parts import Drawing
from edgenas_mobilenet_v3.layers import BlockShape, Widths
from edgenas_mobilenet_v3.space import EXPANSIONS, KERNELS, MOST_BLOCKS
from nas.spaces.svg import canvas, draw, write

_CAPTION = "A box is a block with its kernel and its expansion: as high as the kernel, as wide as the expansion."
_COLOURS = dict(zip(KERNELS, (SKY, BLUE, VERMILLION), strict=True))
_LEFT, _TOP, _ROW, _GAP = 178.0, 58.0, 62.0, 8.0
_PER_EXPANSION, _PER_KERNEL = 20.0, 7.0  # pixels of a box
_WIDTH = _LEFT + MOST_BLOCKS * (max(EXPANSIONS) * _PER_EXPANSION + _GAP) + 12


def draw_network(
    title: str, image: int, stages: list[list[BlockShape]], channels: Widths, description: str
) -> Drawing:
    """Draw a network whose stages hold these blocks, for images of a side in pixels."""
    height = _TOP + _ROW * len(stages) + 34
    svg = canvas(_WIDTH, height)
    write(svg, 4.0, 22.0, f"image {image} x {image}", INK)
    stem = f"3x3 stem, {channels.stem} channels, and a 3x3 block without expansion"
    write(svg, _LEFT, 22.0, stem, FAINT)
    for number, blocks in enumerate(stages):
        _stage(svg, _TOP + _ROW * number, number + 1, blocks)
    head = f"1x1 to {channels.final} and {channels.features} channels, classifier"
    write(svg, _LEFT, _TOP + _ROW * len(stages) + 14, head, FAINT)
    return Drawing(title, svg, description, _CAPTION)


def _stage(svg: Element, top: float, number: int, blocks: list[BlockShape]) -> None:
    middle, last = top + _ROW / 2, blocks[-1]
    draw(svg, "line", x1=0.0, y1=top, x2=_WIDTH, y2=top, stroke=LINE, stroke_width=1.0)
    write(svg, 4.0, middle - 10, f"stage {number}, {last.output_side} x {last.output_side}", INK)
    squeeze = ", squeeze" if last.squeeze else ""
    write(svg, 4.0, middle + 10, f"{last.outputs} channels{squeeze}", FAINT)
    x = _LEFT
    for block in blocks:
        expansion = block.hidden // block.inputs
        width = expansion * _PER_EXPANSION
        _box(svg, x, middle, block.kernel, width)
        label = f"{block.kernel}x{block.kernel}, {expansion}"
        write(svg, x + width / 2, middle, label, INK).set("text-anchor", "middle")
        x += width + _GAP


def _box(svg: Element, x: float, middle: float, kernel: int, width: float) -> None:
    height, colour = kernel * _PER_KERNEL, _COLOURS[kernel]
    shape = {"x": x, "y": middle - height / 2, "width": width, "height": height, "rx": 4.0}
    draw(svg, "rect", **shape, fill=GROUND)
    draw(svg, "rect", **shape, fill=colour, fill_opacity="0.18", stroke=colour, stroke_width=2.0)
