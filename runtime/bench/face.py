"""What an experiment shows of its rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, final

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
    stands_in_for_gpu: bool = False
    """Whether a core stands in for a GPU where there is none."""

    def stand_in(self, settings: Mapping[str, Any]) -> str:
        """What "GPU" means in results of a machine without one; empty elsewhere."""
        if not self.stands_in_for_gpu or settings.get("device") != "cpu":
            return ""
        return (
            f"No GPU took part: GPU is a core here, CPU another one that is made "
            f"{settings.get('throttle', 1):g} times slower."
        )
