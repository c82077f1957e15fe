"""A hog in a Python process: NumPy copies, or a network.

    python -m runtime.contention.hogs.python_hog KIND FILE HOG BYTES CORE PARENT WHERE

The arguments are those of hog.c; KIND is `memory` or `network`, and WHERE is the name of the network. The process ends with its parent.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable
from threading import Thread

from runtime.contention.hogs.control_page import PERIOD_S, ControlPage
from runtime.contention.hogs.token_bucket import TokenBucket

_PR_SET_PDEATHSIG = 1
_MEMORY_PIECE = 2**18


def main() -> None:
    """Run the hog of the command line until the parent ends."""
    run_process(_work)


def run_process(work: Callable[[str, int, str], tuple[Callable[[], object], int]]) -> None:
    """Run a hog until the parent ends; `work` makes its function and the bytes that a call moves.

    `work` gets KIND, BYTES and WHERE.
    """
    kind, file, hog, size, core, parent, where = sys.argv[1:]
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):
        sys.exit(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()
    try:
        if int(core) >= 0:
            os.sched_setaffinity(0, {int(core)})
        move, piece = work(kind, int(size), where)
        page = ControlPage(int(file))
    except (OSError, MemoryError) as error:
        sys.stdout.write(f"{error}\n")
        sys.exit(1)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    run_hog(page, int(hog), move, piece, lambda: False)


def run_hog(
    page: ControlPage, hog: int, move: Callable[[], object], piece: int, is_over: Callable[[], bool]
) -> None:
    """Call `move`, which moves `piece` bytes, in a loop as fast as the control page allows."""
    bucket = TokenBucket()
    while not is_over():
        bucket.rate(page.bytes_per_s(hog))
        wait_s = bucket.take(piece)
        if wait_s > 0:
            time.sleep(min(wait_s, PERIOD_S))
            continue
        move()
        page.count(hog, piece)


def _work(kind: str, size: int, where: str) -> tuple[Callable[[], object], int]:
    if kind == "memory":
        return _copies(size)
    from runtime.contention.networks import load_on_cpu  # noqa: PLC0415 - imports torch

    return load_on_cpu(where)


def _copies(size: int) -> tuple[Callable[[], object], int]:
    import numpy as np  # noqa: PLC0415 - a network does not need it

    pieces = max(1, size // 2 // _MEMORY_PIECE)
    source = np.ones((pieces, _MEMORY_PIECE), np.uint8)
    target = np.zeros_like(source)
    place = 0

    def copy() -> None:
        nonlocal place
        np.copyto(target[place], source[place])
        place = (place + 1) % pieces

    return copy, _MEMORY_PIECE


def _end_with_parent() -> None:
    while os.read(0, 1):
        pass
    os._exit(0)


if __name__ == "__main__":
    main()
