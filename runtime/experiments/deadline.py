"""The deadline of the current step: set by the driver, asked by every loop of a step.

It is a context variable, so that the experiments between them need not pass it on.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import final


@final
@dataclass
class Deadline:
    """Deadline of a step, on the clock of `time.monotonic`."""

    until_s: float = math.inf
    has_cut: bool = False
    """True if a loop ended early because of the deadline."""


_DEADLINE: ContextVar[Deadline | None] = ContextVar("deadline", default=None)


@contextmanager
def ends_by(until_s: float) -> Iterator[Deadline]:
    """Set the deadline of the block."""
    deadline = Deadline(until_s)
    token = _DEADLINE.set(deadline)
    try:
        yield deadline
    finally:
        _DEADLINE.reset(token)


def time_is_left() -> bool:
    """Return True if a loop may begin another round; to be called only if there is one."""
    deadline = _DEADLINE.get()
    if deadline is None or time.monotonic() < deadline.until_s:
        return True
    deadline.has_cut = True
    return False
