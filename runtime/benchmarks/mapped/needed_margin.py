"""The margin to plan with, from frames that ran: how much the worst frame exceeded its plan.

A mapping without a late frame proves only that this frame had room for the interference between
networks; the next frame may be fuller. So the margin is the interference itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from benchmarks.results import Row


@final
@dataclass(frozen=True)
class NeededMargin:
    """Margin that a timetable needed."""

    margin: float
    """Rounded up to whole per cents, such as 0.66."""
    timetable: str
    has_held: bool
    """True for a mapping without a late frame; False for the shortest frame."""


def needed_margin(rows: Sequence[Row]) -> NeededMargin | None:
    """Return the margin needed by the mapping of least margin without a late frame.

    If no mapping is without a late frame, the margin is that of the shortest frame.

    Returns:
      None if the mapper did not run, or neither of the two timetables completed.
    """
    margins = [row for row in rows if "margin" in row]
    holds = next((row for row in margins if row["holds"]), None)
    for row in rows if margins else ():
        is_it = row.get("timetable") == holds["of"] if holds else "shortest" in row.get("ways", ())
        if is_it and not row["error"] and row.get("needed_margin") is not None:
            # rows have four decimals; further ones are rounding errors of the multiplication
            percents = math.ceil(round(100 * row["needed_margin"], 2))
            return NeededMargin(max(0, percents) / 100, row["timetable"], holds is not None)
    return None
