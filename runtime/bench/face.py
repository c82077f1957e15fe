"""What an experiment shows of its rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from runtime.bench.results import Row
from runtime.bench.shown import Shown
from runtime.page.document import KeyFigure
from runtime.page.parts import Figure


def _no_key_figures(_: list[Row]) -> list[KeyFigure]:
    return []


@final
@dataclass(frozen=True)
class Face:
    """Its title, and what is made of its rows: tables for a terminal, figures for a page."""

    title: str
    tables: Callable[[list[Row]], list[Shown]]
    figures: Callable[[list[Row]], list[Figure]]
    key_figures: Callable[[list[Row]], list[KeyFigure]] = _no_key_figures
