"""Analyses of a study beyond the general report, such as those of `benchmarks.studies`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, final

from edgenas_core.page.document import KeyFigure, Section
from edgenas_core.page.parts import Table
from nas.study.evaluation.results import Results
from nas.study.plan import Plan

Item = TypeVar("Item")
Declared = Mapping[str, Callable[[Item], str | float]]
"""Header of each column, and the cell of an item."""


@final
@dataclass(frozen=True)
class Analysis:
    """A question that some studies answer."""

    name: str  # key in results.json
    applies: Callable[[Plan], bool]
    measure: Callable[[Results], Sequence[Any]]  # dataclasses, whose `sentences` are the answer
    sections: Callable[[Sequence[Any], Results], Iterator[Section]]  # of the page
    key_figures: Callable[[Sequence[Any], Results], Iterator[KeyFigure]] | None = None
    is_whole: bool = False  # the report says nothing else about single problems


def declared_table(items: Iterable[Item], columns: Declared[Item], caption: str) -> Table:
    """Make a table with one row for each item, and columns that are declared beside their cells."""
    rows = [[cell(item) for cell in columns.values()] for item in items]
    return Table([*columns], rows, caption)
