"""View of one kind of results: tables, figures, key figures and sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, final

from benchmarks.papers.results import Row
from benchmarks.papers.table_view import TableView
from common.page.document import KeyFigure
from common.page.parts import Figure


def _no_key_figures(_: list[Row]) -> list[KeyFigure]:
    return []


def _no_sentences(_: list[Row]) -> list[str]:
    return []


def _measured(_: list[Row]) -> str:
    return ""


@final
@dataclass(frozen=True)
class View:
    """A title, and the functions that turn rows into tables, figures and text."""

    title: str
    tables: Callable[[list[Row]], list[TableView]]
    figures: Callable[[list[Row]], list[Figure]]
    key_figures: Callable[[list[Row]], list[KeyFigure]] = _no_key_figures
    sentences: Callable[[list[Row]], list[str]] = _no_sentences
    """The answer in words, one line each."""
    stands_in_for_gpu: bool = False
    """True if a CPU core replaces the GPU on a machine without one."""
    simulated: Callable[[list[Row]], str] = _measured
    """A note for rows that were simulated; an empty text for rows that were measured."""
    minutes: str = "minutes="
    """Setting of the time that a measurement may take."""

    def stand_in(self, settings: Mapping[str, Any]) -> str:
        """Note on the core that replaced the GPU, or an empty text if there was a GPU."""
        if not self.stands_in_for_gpu or settings.get("device") != "cpu":
            return ""
        return (
            "No GPU was used: GPU means one core here, and CPU another core slowed down "
            f"{settings.get('throttle', 1):g} times."
        )

    def flagged(self, rows: list[Row]) -> tuple[int, int]:
        """Number of flagged rows, and number of measured rows."""
        timed = [] if self.simulated(rows) else [row for row in rows if not row.get("simulated")]
        return sum(bool(row.get("flagged")) for row in timed), len(timed)

    def require_rows(self, rows: list[Row]) -> None:
        """Check that every function of this view accepts the rows.

        Raises:
          ValueError: if one does not, as with rows of another experiment or of an older version.
        """
        try:
            for read in (
                self.tables,
                self.figures,
                self.key_figures,
                self.sentences,
                self.simulated,
            ):
                read(rows)
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            raise ValueError(f"{type(error).__name__}: {' '.join(str(error).split())}") from error
