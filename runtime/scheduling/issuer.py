"""What placing a job costs the one thread that places all, and how late it hears of ends.

`execute` has one issuing thread. It hears that something arrived, was launched or ended, asks the
policy and puts the next job, and can do one such thing at a time: where jobs are many and small, it
is this thread that the lanes wait for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True)
class Issuer:
    """Of each lane, milliseconds."""

    put_ms: tuple[float, ...]
    """The issuing thread is busy with a job of this lane."""
    wake_ms: tuple[float, ...]
    """From a job's end until the thread, were it idle, hears of it."""

    def __post_init__(self) -> None:
        """Checks the times.

        Raises:
          ValueError: if they are not as many, or not times.
        """
        if len(self.put_ms) != len(self.wake_ms):
            raise ValueError(f"{len(self.put_ms)} times to put and {len(self.wake_ms)} to wake")
        for ms in (*self.put_ms, *self.wake_ms):
            if not 0 <= ms < math.inf:
                raise ValueError(f"an issuing thread that takes {ms} ms")
