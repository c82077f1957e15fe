"""Parsing of limits with units: times, energies and numbers of parameters."""

from __future__ import annotations

import math
import re

from runtime.shell.errors import UserError

_MS_PER = {"s": 1e3, "ms": 1.0, "us": 1e-3}
_MJ_PER = {"J": 1e3, "mJ": 1.0, "uJ": 1e-3}
_ONES_PER = {"": 1.0, "k": 1e3, "M": 1e6}
_QUANTITY = re.compile(r"\s*([+-]?[0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)\s*([a-zA-Zµ]*)\s*")


def milliseconds(text: str) -> float:
    """Milliseconds of a time such as 17ms, 0.017s or 17000us.

    Raises:
      UserError: if there is no unit, an unknown one, or the time is not positive.
    """
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise UserError(f"T={text} is not a time; write for example T=17ms, T=0.017s or T=17000us")
    number, unit = match.groups()
    if not unit:
        raise UserError(f"T={text} has no unit; write T={number}ms if milliseconds are meant")
    if unit not in _MS_PER:
        raise UserError(f"T={text} has the unit {unit!r}; allowed are s, ms and us, as in T=17ms")
    return _positive(float(number) * _MS_PER[unit], f"T={text} is not a positive time", "T=17ms")


def millijoules(text: str) -> float:
    """Millijoules of an energy such as 5mJ, 0.005J or 5000uJ.

    Raises:
      UserError: if there is no unit, an unknown one, or the energy is not positive.
    """
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise UserError(f"E={text} is not an energy; write for example E=5mJ, E=0.005J or E=5000uJ")
    number, unit = match.groups()
    if not unit:
        raise UserError(f"E={text} has no unit; write E={number}mJ if millijoules are meant")
    if unit not in _MJ_PER:
        raise UserError(f"E={text} has the unit {unit!r}; allowed are J, mJ and uJ, as in E=5mJ")
    return _positive(float(number) * _MJ_PER[unit], f"E={text} is not a positive energy", "E=5mJ")


def parameter_count(text: str) -> float:
    """Number of parameters of a text such as 1M, 500k or 500000.

    Raises:
      UserError: if it is no number, has another unit, or is not positive.
    """
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise UserError(f"P={text} is not a number of parameters; write for example P=1M or P=500k")
    number, unit = match.groups()
    if unit not in _ONES_PER:
        raise UserError(
            f"P={text} has the unit {unit!r}; P counts parameters, with k or M as in P=500k or P=1M "
            f"(4 bytes each in fp32)"
        )
    count = float(number) * _ONES_PER[unit]
    return _positive(count, f"P={text} is not a positive number of parameters", "P=1M")


def _positive(value: float, otherwise: str, example: str) -> float:
    if not (value > 0 and math.isfinite(value)):
        raise UserError(f"{otherwise}; write for example {example}")
    return round(value, 9)  # 0.017 * 1000 is 17, not 17.000000000000004
