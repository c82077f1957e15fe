"""A captured graph beside what it reads and writes: it knows addresses, not owners."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True)
class Kept:
    """A replay whose tensors live as long as it does."""

    replay: Callable[[], None]
    owners: object

    def __call__(self) -> None:
        """Launches it."""
        self.replay()
