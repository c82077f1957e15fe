"""Text from outside, without control characters that a terminal would obey."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text with a question mark in place of each control character, including line ends."""
    return "".join(character if character.isprintable() else "?" for character in text)
