"""Where a buffer lives that CPU and GPU share, and the memory this takes.

Source of the policies, the model and the scheduler: Bateni, Wang, Zhu, Hu and Liu, "Co-Optimizing
Performance and Memory Footprint Via Integrated CPU/GPU Memory Management", RTAS 2020.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import final


class MemoryPolicy(Enum):
    """Section II-B of the source, by its letters."""

    DEVICE = "D"  # a copy on the device: copied in before, and back afterwards
    MANAGED = "M"  # one buffer whose pages go to whoever touches them
    PINNED = "H"  # one buffer of the host, mapped: each access of the device crosses to it


@final
@dataclass(frozen=True)
class Footprint:
    """Bytes that buffers take."""

    host: int = 0
    device: int = 0
    either: int = 0
    """Of managed memory: on the host or on the device, page by page, never on both."""

    @property
    def total(self) -> int:
        """What they take of a memory that CPU and GPU share."""
        return self.host + self.device + self.either

    def __add__(self, other: Footprint) -> Footprint:
        return Footprint(
            self.host + other.host, self.device + other.device, self.either + other.either
        )


def footprint(policy: MemoryPolicy, nbytes: int) -> Footprint:
    """Of one buffer that both sides see."""
    match policy:
        case MemoryPolicy.DEVICE:
            return Footprint(host=nbytes, device=nbytes)
        case MemoryPolicy.MANAGED:
            return Footprint(either=nbytes)
        case MemoryPolicy.PINNED:
            return Footprint(host=nbytes)


def together(footprints: Iterable[Footprint]) -> Footprint:
    """Of buffers that are there at the same time."""
    return sum(footprints, start=Footprint())
