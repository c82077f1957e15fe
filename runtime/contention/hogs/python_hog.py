"""A hog in a Python process: NumPy copies, direct disk reads, or a network.

    python -m runtime.contention.hogs.python_hog KIND FILE HOG BYTES CORE PARENT WHERE

The arguments are those of hog.c; KIND is `memory`, `disk` or `network`, and WHERE is a folder on the
disk or the name of the network. The process ends with its parent.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread

from runtime.contention.hogs.control_page import ControlPage
from runtime.contention.hogs.token_bucket import TokenBucket
from runtime.contention.isolation.bandwidth import MB, PERIOD_S

_PR_SET_PDEATHSIG = 1
_MEMORY_PIECE = 2**18
_DISK_PIECE = 2**20


def main() -> None:
    """Run the hog until the parent ends."""
    kind, file, hog, size, core, parent, where = sys.argv[1:]
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):
        sys.exit(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()
    try:
        if int(core) >= 0:
            os.sched_setaffinity(0, {int(core)})
        move, piece = _work(kind, int(size), where)
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
    if kind == "disk":
        return _reads(size, where)
    from runtime.contention.networks import load_on_cpu  # noqa: PLC0415 - imports torch

    return load_on_cpu(where)


def _copies(size: int) -> tuple[Callable[[], object], int]:
    import numpy as np  # noqa: PLC0415 - the disk hog does not need it

    pieces = max(1, size // 2 // _MEMORY_PIECE)
    source = np.ones((pieces, _MEMORY_PIECE), np.uint8)
    target = np.zeros_like(source)
    place = 0

    def copy() -> None:
        nonlocal place
        np.copyto(target[place], source[place])
        place = (place + 1) % pieces

    return copy, _MEMORY_PIECE


def _reads(size: int, where: str) -> tuple[Callable[[], object], int]:
    pieces = max(1, size // _DISK_PIECE)
    flags = os.O_RDWR | getattr(os, "O_DIRECT", 0)
    handle, name = tempfile.mkstemp(prefix="edgenas-hog-", dir=where)
    try:
        noise = random.Random(0).randbytes(MB)  # noqa: S311 - incompressible content
        for _ in range(math.ceil(pieces * _DISK_PIECE / MB)):
            os.write(handle, noise)
        os.fsync(handle)
        direct = os.open(name, flags)
    finally:
        os.close(handle)
        Path(name).unlink()
    buffer = mmap.mmap(-1, _DISK_PIECE)  # aligned, as direct reads require
    places = random.Random(0)  # noqa: S311 - order of reads

    def read() -> None:
        os.preadv(direct, [buffer], places.randrange(pieces) * _DISK_PIECE)

    read()  # raises here if the file system has no direct reads
    return read, _DISK_PIECE


def _end_with_parent() -> None:
    while os.read(0, 1):
        pass
    os._exit(0)


if __name__ == "__main__":
    main()
