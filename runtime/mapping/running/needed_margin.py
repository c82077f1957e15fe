"""Which margin to plan with, after frames ran for real: the one that a mapping needed.

That no frame of a mapping was late says only that its frame had room for what networks cost each
other; the next one may be fuller. What is to be planned for is the cost itself: by how much the worst
frame was longer than planned.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from runtime.page.results import Row


@final
@dataclass(frozen=True)
class NeededMargin:
    """What a timetable needed."""

    margin: float
    """Rounded up to whole per cents: 0.66."""
    timetable: str
    has_held: bool
    """Whether it is the mapping without a late frame; else it is the one of the shortest frame."""


def needed_margin(rows: Sequence[Row]) -> NeededMargin | None:
    """Of the mapping for the least margin of which no frame was late; if none, of the shortest frame.

    Args:
      rows: as `result_rows` makes them.

    Returns:
      None if the mapper was not asked, or neither of the two ran to its end.
    """
    margins = [row for row in rows if "margin" in row]
    holds = next((row for row in margins if row["holds"]), None)
    for row in rows if margins else ():
        is_it = row.get("timetable") == holds["of"] if holds else "shortest" in row.get("ways", ())
        if is_it and not row["error"] and row.get("needed_margin") is not None:
            # the row has four decimals: what is beyond is the multiplication's
            percents = math.ceil(round(100 * row["needed_margin"], 2))
            return NeededMargin(max(0, percents) / 100, row["timetable"], holds is not None)
    return None
