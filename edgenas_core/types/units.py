"""Parsing of times, energies, numbers of parameters and of bytes with their units; epochs as text."""

from __future__ import annotations

import math
import re

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from edgenas_core.types.errors import UserError

_MS_PER = {"s": 1e3, "ms": 1.0, "us": 1e-3}
_MJ_PER = {"J": 1e3, "mJ": 1.0, "uJ": 1e-3}
_ONES_PER = {"": 1.0, "k": 1e3, "M": 1e6}
_BYTES_PER = {unit: 1000**power for power, unit in enumerate(("b", "kb", "mb", "gb", "tb"))}
_BYTES_PER |= {unit: 1024**power for power, unit in enumerate(("", "kib", "mib", "gib", "tib"))}
LEAST_MS, MOST_MS = 1e-5, 1e5
"""Times beyond these are mistakes: below 10 ns, the resolution of a journal (the fastest published
time is 80 ns), or above 100 s for one inference."""

_NUMBERS = (int, float, np.integer, np.floating)
_QUANTITY = re.compile(r"\s*([+-]?[0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)\s*([a-zA-Zµ]*)\s*")


def require_ms(times: object, what: str) -> Float64[ndarray, "*n"]:
    """Times in milliseconds that come from outside, as an array; `what` begins the error's line.

    Raises:
      UserError: for the first that is no number between LEAST_MS and MOST_MS, as a boolean or a list.
    """
    for ms in np.atleast_1d(np.asarray(times, object)):
        is_number = isinstance(ms, _NUMBERS) and not isinstance(ms, bool)
        if not (is_number and LEAST_MS <= ms <= MOST_MS):
            raise UserError(
                f"{what} {str(ms)[:40]} ms; a time is a number from {LEAST_MS:g} to {MOST_MS:g} ms"
            )
    return np.asarray(times, np.float64)


def milliseconds(text: str) -> float:
    """Milliseconds of a time such as 17ms, 0.017s or 17000us.

    Raises:
      UserError: if there is no unit, an unknown one, or the time is not positive.
    """
    return _physical(text, "T", "a", "time", _MS_PER, ("17ms", "0.017s", "17000us"), "millisecond")


def millijoules(text: str) -> float:
    """Millijoules of an energy such as 5mJ, 0.005J or 5000uJ.

    Raises:
      UserError: if there is no unit, an unknown one, or the energy is not positive.
    """
    return _physical(text, "E", "an", "energy", _MJ_PER, ("5mJ", "0.005J", "5000uJ"), "millijoule")


def _physical(  # noqa: PLR0917 - called in two places
    text: str,
    name: str,
    article: str,
    kind: str,
    per: dict[str, float],
    examples: tuple[str, str, str],
    base: str,
) -> float:
    match = _QUANTITY.fullmatch(text)
    first, second, third = (f"{name}={example}" for example in examples)
    if match is None:
        raise UserError(
            f"{name}={text} is not {article} {kind}; write for example {first}, {second} or {third}"
        )
    number, unit = match.groups()
    large, milli, small = per
    if unit and unit not in per:
        raise UserError(
            f"{name}={text} has the unit {unit!r}; allowed are {large}, {milli} and {small}, "
            f"as in {first}"
        )
    value = float(number) * per[unit or milli]
    if not LEAST_MS <= value <= MOST_MS:
        raise UserError(
            f"{name}={text} is not {article} {kind} from {LEAST_MS:g} to {MOST_MS:g} {milli}; write for example {first}"
        )
    if not unit:
        raise UserError(
            f"{name}={text} has no unit; write {name}={number}{milli} if {base}s are meant"
        )
    return round(value, 9)  # 0.017 * 1000 is 17, not 17.000000000000004


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
    rounded = round(value, 9) if math.isfinite(value) else 0.0  # 0.017 * 1000 is 17
    if rounded <= 0:
        raise UserError(f"{otherwise}; write for example {example}")
    return rounded


def memory_bytes(name: str, text: str) -> int:
    """Bytes of a memory such as 256kB or 1MiB.

    Raises:
      UserError: if it is not a positive size, or has no unit.
    """
    if re.fullmatch(r"[0-9.]+", text):
        raise UserError(f"{name}={text} has no unit; write {name}={text}kB if kilobytes are meant")
    try:
        return parse_bytes(text)
    except ValueError as error:
        raise UserError(f"{name}={text} is not a size; write for example {name}=256kB") from error


def memory_parts(name: str, text: str) -> tuple[int, ...]:
    """Bytes of one memory, 256kB, or of a fast and a slow one, 256kB+8MB.

    Raises:
      UserError: if one is not a positive size or has no unit, or there are more than two.
    """
    parts = text.split("+")
    if len(parts) > 2:
        raise UserError(
            f"{name}={text} has {len(parts)} memories; write one, or a fast and a slow one: {name}=256kB+8MB"
        )
    return tuple(memory_bytes(name, part.strip() or text) for part in parts)


def parse_bytes(text: str | int) -> int:
    """Parse a number of bytes.

    Raises:
      ValueError: if it is not a positive size.
    """
    matched = re.fullmatch(r"\s*([0-9.]+)\s*([A-Za-z]*)\s*", str(text))
    try:
        if matched and matched[2].lower() in _BYTES_PER:
            nbytes = float(matched[1]) * _BYTES_PER[matched[2].lower()]
            if 1 <= nbytes < math.inf:
                return int(nbytes)
    except ValueError:
        pass
    raise ValueError(f"budget={text!r} must be a positive size, as 64MB, 1.5GiB or 4096")


def format_bytes(nbytes: float) -> str:
    """Format a number of bytes in MB, kB or bytes."""
    for unit, size in (("MB", 10**6), ("kB", 10**3)):
        if nbytes >= size:
            return f"{nbytes / size:,.1f} {unit}"
    return f"{nbytes:,.0f} bytes"


def epochs_text(epochs: float) -> str:
    """A number of epochs in words: less than one epoch, 1 epoch, 12 epochs."""
    if epochs and not round(epochs):
        return "less than one epoch"
    return "1 epoch" if round(epochs) == 1 else f"{epochs:.0f} epochs"
