"""Text as HTML: escaped, with code between backticks."""

from __future__ import annotations

import re
from html import escape

from markupsafe import Markup

LONG = 32
"""Length above which a name may be broken into lines."""

_TOGETHER = re.compile(r"(?<!,) (?!\[)| (?=[^\[]*\])")
"""Spaces in a number that keep its parts in one line."""
_BREAK = r"\g<0><wbr>"
_BREAKS = re.compile(r"(?<=\S)[|+/](?=\S)")
_CODE_BREAKS = re.compile(r"\+|(?<=\w)\|(?=\w)")


def inline(text: str) -> Markup:
    """Escape a text; text between two backticks becomes code, and may break after a plus or a bar."""
    parts = escape(text).split("`")
    if len(parts) % 2 == 0:  # a backtick without its other is a backtick
        parts[-2:] = ["`".join(parts[-2:])]
    for position in range(1, len(parts), 2):
        parts[position] = f"<code>{_CODE_BREAKS.sub(_BREAK, parts[position])}</code>"
    return Markup("".join(parts))  # noqa: S704 - escaped above


def name_text(text: str) -> Markup:
    """Like `inline`; a long name, such as a device's id, may break after a bar, a plus or a slash."""
    if len(text) <= LONG or "`" in text:
        return inline(text)
    return Markup(_BREAKS.sub(_BREAK, escape(text)))  # noqa: S704 - escaped


def number_text(text: str) -> Markup:
    """A number that may break into lines only before its interval, and after a comma outside it."""
    return inline(_TOGETHER.sub("\u00a0", text))


def chart_text(text: str) -> str:
    """Text for a chart's titles, labels and hovers, where Plotly would read tags."""
    return escape(text, quote=False)
