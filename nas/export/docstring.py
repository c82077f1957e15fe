"""Docstring of an exported Python file, escaped so that no text of the run becomes code."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence


def docstring(paragraphs: Sequence[str]) -> str:
    """The paragraphs as a module's docstring."""
    text = "\n\n".join(textwrap.fill(plain(paragraph), 99) for paragraph in paragraphs)
    return f'"""{text}\n"""\n'


def plain(text: str) -> str:
    """Text of others that can end no docstring, and begin no line or escape of its own."""
    printable = "".join(c if c.isprintable() else " " for c in text)
    return printable.replace("\\", "/").replace('"', "'")
