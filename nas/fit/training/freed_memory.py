"""Memory that a step on a CPU frees, kept for the next step instead of given back to the system."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Parameters of mallopt(3), in bytes: free memory that glibc keeps, and what is mapped by itself."""

_LARGEST_BYTES = (1 << 30, 32 << 20)
"""Of what is not mapped by itself; glibc before 2.35 refuses more than the second."""

_AFTER_BYTES = {_TRIM_THRESHOLD: 64 << 20, _MMAP_THRESHOLD: 32 << 20}
"""The most that glibc sets them to by itself."""

_changing = threading.Lock()
_running: list[None] = []  # an item for each block, of any thread


@contextmanager
def freed_memory_kept() -> Iterator[None]:
    """Let glibc keep what is freed while the block runs, and give it back after the last one that runs.

    Otherwise the system clears the pages of all activations anew in each step: on one core, trainings of
    MobileNets are 1.14 to 1.43 times as fast with it, passes up to 1.5 times (benchmarks/results/performance.md).
    Afterwards the thresholds stay as high as glibc sets them by itself. With another C library nothing changes.
    """
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "malloc_trim"):
        yield
        return
    with _changing:
        _running.append(None)
        # the first that it takes; alone, the other threshold would freeze this one as it is
        any(libc.mallopt(_MMAP_THRESHOLD, size) for size in _LARGEST_BYTES)
        libc.mallopt(_TRIM_THRESHOLD, -1)  # none is given back
    try:
        yield
    finally:
        with _changing:
            _running.pop()
            if not _running:
                for parameter, size in _AFTER_BYTES.items():
                    libc.mallopt(parameter, size)
                libc.malloc_trim(0)
