"""What of memory a streamed network takes, counted honestly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from runtime.weight_streaming.byte_size import format_bytes


@final
@dataclass(frozen=True)
class MemoryUse:
    """What keeps weights, in bytes; activations are as in any network."""

    weights: int
    """Of the network, each counted once, for comparison."""
    host: int
    """Rings and residents in plain memory of the CPU."""
    pinned: int
    """The ring in pinned memory of the CPU."""
    device: int
    """The ring and the residents in a GPU's memory."""
    kept: int
    """All weights, where they are kept in the CPU's memory (tier=host)."""
    page_cache: int
    """What of the file the system keeps in memory."""

    @property
    def total(self) -> int:
        """All of it."""
        return self.host + self.pinned + self.device + self.kept + self.page_cache

    @property
    def saved(self) -> float:
        """Against the weights counted once, as a share."""
        return 1 - self.total / self.weights

    @property
    def saved_of_two(self) -> float:
        """Against a copy in host memory and one in device memory, as the source counts."""
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
