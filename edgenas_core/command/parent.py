"""Worker processes that end with the process which started them, even if that was killed."""

from __future__ import annotations

import os
import time
from functools import cache
from threading import Thread

_EVERY_S = 1.0


@cache
def end_with(parent: int) -> None:
    """End this process within about a second after its parent, which has this process id, has ended."""
    Thread(target=_watch, args=(parent,), daemon=True, name="end-with-parent").start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_EVERY_S)
    os._exit(1)
