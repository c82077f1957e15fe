"""Values that settings may have: whole numbers and seconds of bounded size, text, plain lists.

A larger whole number is a mistake that would fill the memory, and a longer time would never end.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from edgenas_core.types.errors import UserError

_MOST = {
    "seed": 2**63 - 1,
    "budget": 10**9,
    "horizon": 10**9,  # the budget, as controllers call it
    "batch_size": 10**5,
    "population_size": 10**5,
    "frames": 10**7,
}
_MOST_OF_OTHERS = 10**6
_MOST_SECONDS = 3600.0
_MOST_HOURS = 10_000.0


def require_hours(hours: float) -> None:
    """Check a time that work may take.

    Raises:
      UserError: if it is not positive, or longer than a year.
    """
    if not 0 < hours <= _MOST_HOURS:
        raise UserError(f"hours={hours:g} must be positive, and at most {_MOST_HOURS:,.0f}")


def require_text(name: str, text: str) -> None:
    """Refuse bytes that are no UTF-8, which Python reads as half characters, and NUL.

    Raises:
      UserError: if there is one of them.
    """
    if re.search("[\0\ud800-\udfff]", text):
        raise UserError(f"{name}={text[:200]} is no text in UTF-8")


def require_in_bounds(values: Any, name: str = "") -> None:
    """Check every value of composed or stored settings, however deep.

    Raises:
      UserError: naming the first that is too large, no text, or a list or mapping in a list.
    """
    if isinstance(values, Mapping):
        for key, value in values.items():
            require_in_bounds(value, f"{name}.{key}".lstrip("."))
        return
    for value in values if isinstance(values, list) else [values]:
        if isinstance(value, list | Mapping):
            raise UserError(f"{name}={values} may hold texts and numbers only")
        if isinstance(value, str):
            require_text(name, value)
        elif isinstance(value, int):
            _require_small(name, value)
        elif name.endswith("_s") and isinstance(value, float) and not value <= _MOST_SECONDS:
            raise UserError(
                f"{name}={value:g} is too long; at most {_MOST_SECONDS:,.0f} is allowed"
            )


def _require_small(name: str, value: int) -> None:
    most = _MOST.get(name.rpartition(".")[2], _MOST_OF_OTHERS)
    if abs(value) > most:
        shown = f"{value:,}" if abs(value) < 10**30 else "a number of more than 30 digits"
        raise UserError(f"{name}={shown} is too large; at most {most:,} is allowed")
