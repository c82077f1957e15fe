"""How long the step under way may go on: the driver says it, whatever repeats in a step asks.

A context variable, because what lies between them (an experiment, its variants) has nothing to do
with it.
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
    """Of a step, on the clock of `time.monotonic`."""

    until_s: float = math.inf
    has_cut: bool = False
    """Whether something that would have gone on was told to end."""


_DEADLINE: ContextVar[Deadline | None] = ContextVar("deadline", default=None)


@contextmanager
def ends_by(until_s: float) -> Iterator[Deadline]:
    """What runs in here goes on until then."""
    deadline = Deadline(until_s)
    token = _DEADLINE.set(deadline)
    try:
        yield deadline
    finally:
        _DEADLINE.reset(token)


def time_is_left() -> bool:
    """Whether one who has more to do may begin it; to be asked by no other."""
    deadline = _DEADLINE.get()
    if deadline is None or time.monotonic() < deadline.until_s:
        return True
    deadline.has_cut = True
    return False
