"""Memory use of a streamed network, including all copies of its weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from common.types.units import format_bytes


@final
@dataclass(frozen=True)
class MemoryUse:
    """Bytes of memory that hold weights; activations are not counted."""

    weights: int
    """Bytes of the network's weights, each counted once, for comparison."""
    host: int
    """Rings and resident layers in unpinned memory of the CPU."""
    pinned: int
    """Ring in pinned memory of the CPU."""
    device: int
    """Ring and resident layers in a GPU's memory."""
    kept: int
    """All weights, if they are kept in the CPU's memory (tier=host)."""
    page_cache: int
    """Weight file's bytes in the system's page cache."""

    @property
    def total(self) -> int:
        """Sum of all memory that holds weights."""
        return self.host + self.pinned + self.device + self.kept + self.page_cache

    @property
    def saved(self) -> float:
        """Saving against the weights counted once, as a fraction."""
        return 1 - self.total / self.weights

    @property
    def saved_of_two(self) -> float:
        """Saving against one copy in host and one in device memory, as the paper counts."""
        return 1 - self.total / (2 * self.weights)

    def __str__(self) -> str:
        parts = [
            f"{format_bytes(value)} {name}"
            for name, value in (
                ("host", self.host),
                ("pinned", self.pinned),
                ("device", self.device),
                ("kept in memory", self.kept),
                ("page cache", self.page_cache),
            )
            if value
        ]
        return (
            f"{' + '.join(parts)} for {format_bytes(self.weights)} of weights ({-self.saved:+.1%}; "
            f"{-self.saved_of_two:+.1%} against two copies)"
        )
