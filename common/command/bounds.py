"""Largest values of settings: whole numbers beyond them are mistakes that would fill the memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from common.types.errors import UserError

_MOST = {
    "seed": 2**63 - 1,
    "first_seed": 2**32,
    "budget": 10**9,
    "horizon": 10**9,  # the budget, as controllers call it
    "batch_size": 10**5,
    "population_size": 10**5,
    "frames": 10**7,
}
_MOST_OF_OTHERS = 10**6
_MOST_HOURS = 10_000.0


def require_hours(hours: float) -> None:
    """Check a time that work may take.

    Raises:
      UserError: if it is not positive, or longer than a year.
    """
    if not 0 < hours <= _MOST_HOURS:
        raise UserError(f"hours={hours:g} must be positive, and at most {_MOST_HOURS:,.0f}")


def require_in_bounds(values: Any, name: str = "") -> None:
    """Check every whole number of composed or stored settings, however deep.

    Raises:
      UserError: naming the first that is too large.
    """
    if isinstance(values, Mapping):
        for key, value in values.items():
            require_in_bounds(value, f"{name}.{key}".lstrip("."))
    elif isinstance(values, list):
        for value in values:
            require_in_bounds(value, name)
    elif isinstance(values, int):
        most = _MOST.get(name.rpartition(".")[2], _MOST_OF_OTHERS)
        if abs(values) > most:
            shown = f"{values:,}" if abs(values) < 10**30 else "a number of more than 30 digits"
            raise UserError(f"{name}={shown} is too large; at most {most:,} is allowed")
