"""The sizes of a ring that matter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import numpy as np

from runtime.weight_streaming.planning.ring import PAGE_BYTES, aligned

_GROWTH = 1.25


@final
class Capacities:
    """All sizes from which on a ring places this sequence of pieces in another way.

    Whether a piece goes behind the one before it is decided by the sum of the neighbours from the
    start of the ring up to it. So these are the sums of neighbours that are no smaller than the
    largest piece, and any other size behaves as the next smaller of these, with bytes to spare.
    """

    def __init__(self, lengths: Sequence[int], alignment: int = PAGE_BYTES) -> None:
        """Of at least one piece."""
        rounded = [aligned(one, alignment) for one in lengths]
        self.smallest: int = max(rounded)
        self.largest: int = sum(rounded)
        self._ends = np.cumsum([0, *rounded])

    def floor(self, limit: int) -> int:
        """The largest of them within a limit; 0 if none is."""
        if limit < self.smallest:
            return 0
        last = np.searchsorted(self._ends, self._ends + limit, side="right") - 1
        return int((self._ends[last] - self._ends).max())

    def ladder(self, growth: float = _GROWTH) -> list[int]:
        """Some of them, each about so many times the one before; the first and the last among them."""
        rungs = [self.smallest]
        step = 1
        while rungs[-1] < self.largest:
            size = self.floor(int(self.smallest * growth**step))
            if size > rungs[-1]:
                rungs.append(size)
            step += 1
        return rungs

    def all(self) -> list[int]:
        """All of them, ascending."""
        runs = np.unique(self._ends[None, :] - self._ends[:, None])
        return [int(one) for one in runs[runs >= self.smallest]]
