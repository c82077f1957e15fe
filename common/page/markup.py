"""Text as HTML: escaped, with code between backticks."""

from __future__ import annotations

import re
from html import escape

LONG = 32
"""Length above which a name may be broken into lines."""

_BREAK = r"\g<0><wbr>"
_BREAKS = re.compile(r"(?<=\S)[|+/](?=\S)")
_CODE_BREAKS = re.compile(r"\+|(?<=\w)\|(?=\w)")


def inline(text: str) -> str:
    """Escape a text; text between two backticks becomes code, and may break after a plus or a bar."""
    parts = escape(text).split("`")
    if len(parts) % 2 == 0:  # a backtick without its other is a backtick
        parts[-2:] = ["`".join(parts[-2:])]
    for position in range(1, len(parts), 2):
        parts[position] = f"<code>{_CODE_BREAKS.sub(_BREAK, parts[position])}</code>"
    return "".join(parts)


def name_text(text: str) -> str:
    """Like `inline`; a long name, such as a device's id, may break after a bar, a plus or a slash."""
    if len(text) <= LONG or "`" in text:
        return inline(text)
    return _BREAKS.sub(_BREAK, escape(text))


def chart_text(text: str) -> str:
    """Text for a chart's titles, labels and hovers, where Plotly would read tags."""
    return escape(text, quote=False)
