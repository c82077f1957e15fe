"""One page of memory that the measuring process and its hogs share: lock, limits and counters.

It is a file without a name, so nothing of it outlives the processes. Cell 0 (of 64 bytes, so that
no two writers share a line of the cache) holds the lock; hog k has cell 1 + 2k for what it is told
and cell 2 + 2k for what it tells. Each word has one writer; an aligned word of 8 bytes is written
at once.
"""

from __future__ import annotations

import math
import mmap
import os
from typing import final

from runtime.contention.isolation.budget import LINE_BYTES, PERIOD_S, lines_per_period

PAGE_BYTES = 4096
MOST_HOGS = (PAGE_BYTES // 64 - 1) // 2
_CELL = 8  # words


@final
class ControlPage:
    """Either side of it."""

    def __init__(self, file: int | None = None) -> None:
        """Makes one, or opens that of another process.

        Args:
          file: the other's descriptor, inherited.

        Raises:
          ValueError: if this system has no files without names (Linux has).
        """
        if not hasattr(os, "memfd_create"):
            raise ValueError("hogs need Linux: memory is shared with them by memfd_create")
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
        """Whether the memory belongs to the network."""
        return self._whole[0] > 0

    def hold(self) -> None:
        """The network begins."""
        self._whole[0] = 1

    def let_go(self) -> None:
        """The network has ended."""
        self._whole[0] = 0

    def tell(
        self, hog: int, free_mb_per_s: float, locked_mb_per_s: float, period_s: float = PERIOD_S
    ) -> None:
        """What a hog may use while the lock is free, and while it is held."""
        place = (1 + 2 * hog) * _CELL
        self._real[place + 2] = 1e9 * period_s
        self._real[place] = lines_per_period(free_mb_per_s, period_s)
        self._real[place + 1] = lines_per_period(locked_mb_per_s, period_s)

    def bytes_per_s(self, hog: int) -> float:
        """What a hog may use now."""
        place = (1 + 2 * hog) * _CELL
        lines, period_ns = self._real[place + self.is_locked], self._real[place + 2]
        return lines * LINE_BYTES * 1e9 / period_ns if period_ns else math.inf

    def count(self, hog: int, size: int) -> None:
        """A hog moved so many bytes more."""
        self._whole[(2 + 2 * hog) * _CELL] += size

    def moved(self, hog: int) -> int:
        """Bytes that a hog has moved so far."""
        return int(self._whole[(2 + 2 * hog) * _CELL])

    def close(self) -> None:
        """Lets go of this side's."""
        for view in (self._whole, self._real, self._view):
            view.release()
        self._memory.close()
        os.close(self.file)
