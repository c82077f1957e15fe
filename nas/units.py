"""Times as users write them, parsed once at the border into milliseconds."""

from __future__ import annotations

import math
import re

from nas.errors import UserError

_MS_PER = {"s": 1e3, "ms": 1.0, "us": 1e-3}
_TIME = re.compile(r"\s*([+-]?[0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)\s*([a-zA-Zµ]*)\s*")


def milliseconds(text: str) -> float:
    """Milliseconds of a time such as 17ms, 0.017s or 17000us.

    Raises:
      UserError: if there is no unit, an unknown one, or the time is not positive.
    """
    match = _TIME.fullmatch(text)
    if match is None:
        raise UserError(f"T={text} is not a time; write for example T=17ms, T=0.017s or T=17000us")
    number, unit = match.groups()
    if not unit:
        raise UserError(f"T={text} has no unit; write T={number}ms if milliseconds are meant")
    if unit not in _MS_PER:
        raise UserError(f"T={text} has the unit {unit!r}; allowed are s, ms and us, as in T=17ms")
    value = float(number) * _MS_PER[unit]
    if not (value > 0 and math.isfinite(value)):
        raise UserError(f"T={text} is not a positive time; write for example T=17ms")
    return round(value, 9)  # 0.017 * 1000 is 17, not 17.000000000000004
