"""Units of the times in a table: in the name of the column or of the file, or as the user says."""

from __future__ import annotations

import re
from enum import Enum
from pathlib import PurePath

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from edgenas_core.types.errors import UserError


class TimeUnit(Enum):
    """Unit of the times in a table."""

    ms = "ms"
    s = "s"
    us = "us"
    ns = "ns"
    fps = "fps"  # inferences a second


_MS_PER = {TimeUnit.ms: 1.0, TimeUnit.s: 1e3, TimeUnit.us: 1e-3, TimeUnit.ns: 1e-6}
_WORDS = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), TimeUnit.s),
    **dict.fromkeys(("ms", "msec", "millisecond", "milliseconds"), TimeUnit.ms),
    **dict.fromkeys(("us", "µs", "usec", "microsecond", "microseconds"), TimeUnit.us),
    **dict.fromkeys(("ns", "nsec", "nanosecond", "nanoseconds"), TimeUnit.ns),
    **dict.fromkeys(("fps", "qps", "ips", "throughput"), TimeUnit.fps),
}
_ENDING = re.compile(r"(?:^|[_ (\[])([a-zµ]+)[)\]]*$")
LEAST_OF_ANY_MS, MOST_OF_ALL_MS = 0.1, 1000.0
"""A column that is wholly below or wholly above is hardly of milliseconds."""


def stated_unit(path: PurePath, column: str) -> TimeUnit | None:
    """The unit in the name of a column, as in `board_s` or `board (us)`, else in that of the file; or None."""
    for name in (column, path.name.partition(".")[0]):
        ending = _ENDING.search(name.partition("@")[0].lower())
        if ending and ending[1] in _WORDS:
            return _WORDS[ending[1]]
    return None


def to_ms(
    values: Float64[ndarray, " n"], path: PurePath, column: str, unit: TimeUnit | None
) -> Float64[ndarray, " n"]:
    """Milliseconds of a column whose unit is given, or stated by a name, or milliseconds.

    Raises:
      UserError: if no unit was given, and the values cannot be milliseconds.
    """
    asked, unit = unit, unit or stated_unit(path, column) or TimeUnit.ms
    with np.errstate(divide="ignore"):
        ms = 1e3 / values if unit is TimeUnit.fps else values * _MS_PER[unit]
    finite = ms[np.isfinite(ms)]
    if asked is None and finite.size:
        low, high = float(finite.min()), float(finite.max())
        if high < LEAST_OF_ANY_MS or low > MOST_OF_ALL_MS:
            raise UserError(
                f"{path}: every latency of {column} lies from {low:.3g} to {high:.3g} ms, if its unit is "
                f"{unit.value}; a network takes longer or less: say its unit with "
                f"latency.unit={'|'.join(each.value for each in TimeUnit)}"
            )
    return ms
