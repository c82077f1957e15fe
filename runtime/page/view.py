"""What an experiment shows of its rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, final

from runtime.page.document import KeyFigure
from runtime.page.parts import Figure
from runtime.page.results import Row
from runtime.page.table_view import Shown


def _no_key_figures(_: list[Row]) -> list[KeyFigure]:
    return []


def _timed(_: list[Row]) -> str:
    return ""


@final
@dataclass(frozen=True)
class Face:
    """Its title, and what is made of its rows: tables for a terminal, figures for a page."""

    title: str
    tables: Callable[[list[Row]], list[Shown]]
    figures: Callable[[list[Row]], list[Figure]]
    key_figures: Callable[[list[Row]], list[KeyFigure]] = _no_key_figures
    stands_in_for_gpu: bool = False
    """Whether a core stands in for a GPU where there is none."""
    simulated: Callable[[list[Row]], str] = _timed
    """What is said of rows in which nothing was timed; empty of others."""

    def stand_in(self, settings: Mapping[str, Any]) -> str:
        """What "GPU" means in results of a machine without one; empty elsewhere."""
        if not self.stands_in_for_gpu or settings.get("device") != "cpu":
            return ""
        return (
            f"No GPU took part: GPU is a core here, CPU another one that is made "
            f"{settings.get('throttle', 1):g} times slower."
        )

    def flagged(self, rows: list[Row]) -> tuple[int, int]:
        """How many of the rows that were timed are flagged, and how many these are."""
        timed = [] if self.simulated(rows) else [row for row in rows if not row.get("simulated")]
        return sum(bool(row.get("flagged")) for row in timed), len(timed)
