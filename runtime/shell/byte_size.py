"""Parse and format numbers of bytes: 64MB, 1.5 GiB, 4096."""

from __future__ import annotations

import math
import re

_UNITS = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}


def parse_bytes(text: str | int) -> int:
    """Parse a number of bytes.

    Raises:
      ValueError: if it is not a positive size.
    """
    matched = re.fullmatch(r"\s*([0-9.]+)\s*([A-Za-z]*)\s*", str(text))
    try:
        if matched and matched[2].lower() in _UNITS:
            nbytes = float(matched[1]) * _UNITS[matched[2].lower()]
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
