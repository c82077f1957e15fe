"""What others say, without what would make a terminal do something."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text with a question mark for each control character, ends of lines too."""
    return "".join(character if character.isprintable() else "?" for character in text)
