"""A memory page shared by the measuring process and its hogs: lock, budgets and counters.

It is an anonymous file, so it does not outlive the processes. Cells have 64 bytes, so that no two
writers share a cache line. Cell 0 holds the lock; hog k has cell 1 + 2k for its budgets and cell
2 + 2k for its counter. Each word has one writer; writing an aligned word of 8 bytes is atomic.

A bandwidth limit becomes cache lines per period by equation 14 of Nigam, "Kernel Mechanisms for
Efficient GPU Accelerated DNN Inference on Embedded Devices" (MSc thesis, University of Washington,
2018). Its MB has 2 ** 20 bytes, as its table 2 shows; so does every `mb_per_s` in this package, while
a GB has 10 ** 9 bytes.
"""

from __future__ import annotations

import math
import mmap
import os
from typing import final

LINE_BYTES = 64
MB = 2**20
GB = 10**9
PERIOD_S = 1e-3
"""Scheduling tick of the source."""
PAGE_BYTES = 4096
MOST_HOGS = (PAGE_BYTES // 64 - 1) // 2
_CELL = 8  # words


def lines_per_period(limit_mb_per_s: float, period_s: float = PERIOD_S) -> float:
    """Return the cache misses allowed in one period (equation 14); infinite without a limit."""
    return limit_mb_per_s * MB / LINE_BYTES * period_s


@final
class ControlPage:
    """The shared page, as seen by either side."""

    def __init__(self, file: int | None = None) -> None:
        """Create a page, or open that of another process.

        `file` is its inherited file descriptor.

        Raises:
          ValueError: if this system has no anonymous files (Linux has).
        """
        if not hasattr(os, "memfd_create"):
            raise ValueError("hogs need Linux: they share memory by memfd_create")
        if file is None:
            file = os.memfd_create("edgenas-contention")
            os.ftruncate(file, PAGE_BYTES)
        self.file = file
        self._memory = mmap.mmap(file, PAGE_BYTES)
        self._view = memoryview(self._memory)
        self._whole = self._view.cast("Q")
        self._real = self._view.cast("d")

    @property
    def is_locked(self) -> bool:
        """Whether the network holds the lock."""
        return self._whole[0] > 0

    def lock(self) -> None:
        """Take the lock, before the network runs."""
        self._whole[0] = 1

    def unlock(self) -> None:
        """Release the lock, after the network has run."""
        self._whole[0] = 0

    def set_budget(self, hog: int, free_mb_per_s: float, locked_mb_per_s: float) -> None:
        """Set the budgets of a hog: while the lock is free, and while it is held."""
        place = (1 + 2 * hog) * _CELL
        self._real[place + 2] = 1e9 * PERIOD_S
        self._real[place] = lines_per_period(free_mb_per_s)
        self._real[place + 1] = lines_per_period(locked_mb_per_s)

    def bytes_per_s(self, hog: int) -> float:
        """Return the current budget of a hog."""
        place = (1 + 2 * hog) * _CELL
        lines, period_ns = self._real[place + self.is_locked], self._real[place + 2]
        return lines * LINE_BYTES * 1e9 / period_ns if period_ns else math.inf

    def count(self, hog: int, size: int) -> None:
        """Add to the bytes moved by a hog."""
        self._whole[(2 + 2 * hog) * _CELL] += size

    def moved(self, hog: int) -> int:
        """Return the bytes moved by a hog so far."""
        return int(self._whole[(2 + 2 * hog) * _CELL])

    def close(self) -> None:
        """Close this side of the page."""
        for view in (self._whole, self._real, self._view):
            view.release()
        self._memory.close()
        os.close(self.file)
