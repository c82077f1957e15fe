"""The caches of a core, as Linux tells of them."""

from __future__ import annotations

from pathlib import Path

_KIB = {"K": 1, "M": 1024, "G": 1024**2}
_ELSEWHERE = 32 * 2**20
"""Where nothing is told, as on many boards and outside Linux."""


def last_level_bytes(core: int = 0, system: Path = Path("/sys/devices/system/cpu")) -> int:
    """The size of the largest cache that serves a core."""
    sizes = [0]
    for told in (system / f"cpu{core}" / "cache").glob("index*/size"):
        text = told.read_text(encoding="ascii").strip()
        if text[-1:] in _KIB and text[:-1].isdigit():
            sizes.append(int(text[:-1]) * _KIB[text[-1]] * 1024)
    return max(sizes) or _ELSEWHERE
