"""A table as it is shown: in a terminal and on a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True)
class Shown:
    """A table of texts."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    names: int
    """Columns at the left that are names; the rest are numbers."""
