"""Elements of an SVG drawing, by keyword arguments."""

from __future__ import annotations

from xml.etree.ElementTree import Element, SubElement


def canvas(width: float, height: float) -> Element:
    """An empty drawing of this size in pixels."""
    size = {"width": f"{width:g}", "height": f"{height:g}", "font-size": "14"}
    return Element("svg", {"viewBox": f"0 0 {width:g} {height:g}", **size})


def draw(svg: Element, kind: str, **attributes: float | str) -> Element:
    """Add an element; `stroke_width=2` is the attribute `stroke-width`."""
    texts = {
        name.replace("_", "-"): value if isinstance(value, str) else f"{value:g}"
        for name, value in attributes.items()
    }
    return SubElement(svg, kind, texts)


def write(svg: Element, x: float, y: float, text: str, fill: str) -> Element:
    """Add a text that begins at `x`, with its middle at the height `y`."""
    element = draw(svg, "text", x=x, y=y, dy="0.35em", fill=fill)
    element.text = text
    return element
