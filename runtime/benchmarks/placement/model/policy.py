"""Policies for the placement of a buffer that CPU and GPU share, and their memory footprint.

Source of the policies, the model and the scheduler: Bateni, Wang, Zhu, Hu and Liu, "Co-Optimizing
Performance and Memory Footprint Via Integrated CPU/GPU Memory Management", RTAS 2020.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import final


class MemoryPolicy(Enum):
    """Policies of section II-B of the source, by their letters."""

    DEVICE = "D"  # a copy on the device: copied in before, and back afterwards
    MANAGED = "M"  # one buffer whose pages go to whoever touches them
    PINNED = "H"  # one buffer of the host, mapped: each access of the device crosses to it


@final
@dataclass(frozen=True)
class Footprint:
    """Memory that buffers occupy, bytes."""

    host: int = 0
    device: int = 0
    either: int = 0
    """Managed memory: each page is on the host or on the device, never on both."""

    @property
    def total(self) -> int:
        """Bytes in a memory that CPU and GPU share physically."""
        return self.host + self.device + self.either

    def __add__(self, other: Footprint) -> Footprint:
        return Footprint(
            self.host + other.host, self.device + other.device, self.either + other.either
        )


def footprint(policy: MemoryPolicy, nbytes: int) -> Footprint:
    """Footprint of one buffer that both sides use."""
    match policy:
        case MemoryPolicy.DEVICE:
            return Footprint(host=nbytes, device=nbytes)
        case MemoryPolicy.MANAGED:
            return Footprint(either=nbytes)
        case MemoryPolicy.PINNED:
            return Footprint(host=nbytes)


def together(footprints: Iterable[Footprint]) -> Footprint:
    """Footprint of buffers that exist at the same time."""
    return sum(footprints, start=Footprint())
