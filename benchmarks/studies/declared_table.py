"""Tables whose columns are declared beside how a cell is made of an item."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from edgenas_core.page.parts import Table

Item = TypeVar("Item")
Declared = Mapping[str, Callable[[Item], str | float]]
"""Header of each column, and the cell of an item."""


def declared_table(items: Iterable[Item], columns: Declared[Item], caption: str) -> Table:
    """One row for each item."""
    rows = [[cell(item) for cell in columns.values()] for item in items]
    return Table([*columns], rows, caption)
