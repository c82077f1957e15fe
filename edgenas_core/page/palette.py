"""Colours of a page for light and dark schemes, distinguishable by colour-blind readers.

A figure names a colour (`BLUE` is the text "var(--blue)"), and the page inserts the value of the
current scheme. The series are those of Okabe & Ito (2008, "Color Universal Design"), darkened
or lightened until each has a contrast of 3 : 1 with its background (WCAG 2.2, 1.4.11).
"""

from __future__ import annotations

COLOURS: dict[str, tuple[str, str]] = {
    # in light, and in dark
    "ground": ("#ffffff", "#12171d"),
    "panel": ("#f5f7f9", "#1b222a"),
    "line": ("#d5dce3", "#36414d"),
    "ink": ("#18222c", "#e8edf2"),
    "faint": ("#55626f", "#a3b0bd"),
    "dots": ("#b9c3cd", "#4b5866"),
    "accent": ("#00629b", "#6bb8ec"),
    "good": ("#00694d", "#4fd1a5"),
    "bad": ("#b03a00", "#ff9a62"),
    "blue": ("#0072b2", "#4aa8e0"),
    "orange": ("#b87800", "#f0b040"),
    "green": ("#00856a", "#3cc9a0"),
    "vermillion": ("#cc5200", "#ff7f3f"),
    "purple": ("#b35a8c", "#e39bc6"),
    "sky": ("#2d8fc7", "#8fd0f7"),
    "olive": ("#857a00", "#e3d84a"),
    "grey": ("#6f7b87", "#96a3b0"),
    # from few to many, or from early to late
    "scale-0": ("#dcebf5", "#1d3447"),
    "scale-1": ("#9fcbe6", "#285b80"),
    "scale-2": ("#4a9ac9", "#3b8abf"),
    "scale-3": ("#136a9f", "#74bce8"),
    "scale-4": ("#053a5c", "#d9effc"),
}
BAND_OPACITY = 0.2


def _name(colour: str) -> str:
    return f"var(--{colour})"


INK, FAINT, DOTS, LINE, GROUND = map(_name, ("ink", "faint", "dots", "line", "ground"))
GREY = _name("grey")
BLUE, ORANGE, GREEN, VERMILLION = map(_name, ("blue", "orange", "green", "vermillion"))
PURPLE, SKY, OLIVE = map(_name, ("purple", "sky", "olive"))

SERIES = (BLUE, VERMILLION, GREEN, ORANGE, PURPLE, SKY, OLIVE, GREY)
"""Colours of the lines of a chart, in order."""

SEQUENTIAL = [[i / 4, _name(f"scale-{i}")] for i in range(5)]
"""A colour scale from small values, near the background, to large ones."""


def band(colour: str) -> str:
    """The same colour, transparent, for an interval around a line."""
    return colour.removesuffix(")") + "-band)"


def style_sheet() -> str:
    """The colours as CSS custom properties, for the reader's scheme or the chosen one."""
    light, dark = (_properties(i) for i in range(2))
    return (
        f":root{{color-scheme:light;{light}}}\n"
        f"@media(prefers-color-scheme:dark){{:root:not([data-theme])"
        f"{{color-scheme:dark;{dark}}}}}\n"
        f":root[data-theme=dark]{{color-scheme:dark;{dark}}}\n"
    )


def _properties(scheme: int) -> str:
    properties = []
    for name, values in COLOURS.items():
        red, green, blue = (int(values[scheme][i : i + 2], 16) for i in (1, 3, 5))
        properties.append(f"--{name}:{values[scheme]}")
        properties.append(f"--{name}-band:rgba({red},{green},{blue},{BAND_OPACITY})")
    return ";".join(properties)
