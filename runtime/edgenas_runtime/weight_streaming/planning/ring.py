"""Allocation in a ring buffer: offsets and dependencies, not the bytes themselves."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import final

import numpy as np

_GROWTH = 1.25
"""Ratio of neighbouring ring sizes that the planner tries."""

PAGE_BYTES = 4096
"""Alignment that direct I/O requires of offsets and lengths."""


def aligned(nbytes: int, alignment: int = PAGE_BYTES) -> int:
    """Round up to a multiple of the alignment."""
    return -(-nbytes // alignment) * alignment


@final
@dataclass(frozen=True)
class RingPlace:
    """Fixed offset of one reservation in a sequence, and the release that it waits for."""

    offset: int
    after: int | None
    """Index of the last reservation that must be released before; None if it need not wait.

    A negative index refers to the previous pass of the same sequence, counted from its end.
    """


def places(
    lengths: Sequence[int], capacity_bytes: int, alignment: int = PAGE_BYTES
) -> tuple[RingPlace, ...]:
    """Allocate a sequence, first in, first out, waiting for as few releases as possible.

    A reservation that does not fit after the newest one starts at 0, and the bytes at the end stay
    unused. Offsets depend on the lengths only, never on timing, so captured graphs can use fixed
    addresses.

    Raises:
      ValueError: if a length does not fit into the ring.
    """
    rounded, capacity = _rounded(lengths, capacity_bytes, alignment)
    held: deque[tuple[int, int]] = deque()  # begin and end, oldest first
    reserved: list[RingPlace] = []
    for i, length in enumerate(rounded):
        while (offset := _gap(held, length, capacity)) is None:
            held.popleft()
        released = i - len(held)  # earlier reservations that were released
        held.append((offset, offset + length))
        reserved.append(RingPlace(offset, released - 1 if released else None))
    return tuple(reserved)


def _gap(held: Sequence[tuple[int, int]], length: int, capacity: int) -> int | None:
    if not held:
        return 0
    (oldest, _), (newest, end) = held[0], held[-1]
    if newest < oldest:  # wrapped around the end
        return end if oldest - end >= length else None
    if capacity - end >= length:
        return end
    return 0 if oldest >= length else None


def _rounded(lengths: Sequence[int], capacity_bytes: int, alignment: int) -> tuple[list[int], int]:
    """Round the lengths up and the capacity down to the alignment."""
    rounded = [aligned(nbytes, alignment) for nbytes in lengths]
    capacity = capacity_bytes // alignment * alignment
    for nbytes, length in zip(lengths, rounded, strict=True):
        if not 0 < length <= capacity:
            raise ValueError(
                f"{nbytes} bytes, aligned to {alignment}, do not fit into a ring of {capacity}"
            )
    return rounded, capacity


def cyclic_places(
    lengths: Sequence[int], capacity_bytes: int, alignment: int = PAGE_BYTES
) -> tuple[RingPlace, ...]:
    """Allocate a sequence that repeats, with the same offsets in every pass.

    A pass goes through the ring in several laps of about equal length. With laps as long as the ring
    the last could be short, and the next pass, which starts at 0, would wait for nearly the last
    reservation. A reservation without predecessor at its offset in its own pass waits for the last one
    there in the previous pass, at the latest for itself.

    Raises:
      ValueError: if a length does not fit into the ring.
    """
    rounded, capacity = _rounded(lengths, capacity_bytes, alignment)
    laps = [*_laps(rounded, capacity)]
    begins = [[*accumulate((rounded[i] for i in lap[:-1]), initial=0)] for lap in laps]
    ends = [starts[-1] + rounded[lap[-1]] for starts, lap in zip(begins, laps, strict=True)]
    reserved = []
    for number, lap in enumerate(laps):
        for i, begin in zip(lap, begins[number], strict=True):
            before = number - 1
            while ends[before] <= begin:  # negative numbers are laps of the previous pass
                before -= 1
            last = laps[before][bisect_left(begins[before], begin + rounded[i]) - 1]
            reserved.append(RingPlace(begin, last if before >= 0 else last - len(lengths)))
    return tuple(reserved)


def _laps(lengths: Sequence[int], capacity: int) -> Iterator[range]:
    """Split the sequence into the fewest laps that fit, of about equal length."""
    sums = [*accumulate(lengths, initial=0)]
    furthest = [bisect_right(sums, begin + capacity) - 1 for begin in sums[:-1]]
    fewest = [0] * len(sums)  # laps from each index on
    for i in reversed(range(len(lengths))):
        fewest[i] = 1 + fewest[furthest[i]]
    begin = 0
    for left in range(fewest[0], 0, -1):
        share = sums[begin] + (sums[-1] - sums[begin]) / left
        end = bisect_left(sums, share, begin + 1)
        if end - 1 > begin and share - sums[end - 1] < sums[end] - share:
            end -= 1
        end = min(end, furthest[begin])
        while fewest[end] >= left:
            end += 1
        yield range(begin, end)
        begin = end


@final
class RingSizes:
    """The ring sizes at which the allocation of a sequence of lengths changes.

    Whether a reservation fits after the previous one depends on the sum of its neighbours since the
    start of the ring. So these sizes are the sums of consecutive lengths that are not less than the
    largest length; any other size behaves like the next smaller one.
    """

    def __init__(self, lengths: Sequence[int], alignment: int = PAGE_BYTES) -> None:
        """Compute the sizes for one or more lengths."""
        rounded = [aligned(nbytes, alignment) for nbytes in lengths]
        self.smallest: int = max(rounded)
        self.largest: int = sum(rounded)
        self._ends = np.cumsum([0, *rounded])

    def floor(self, limit: int) -> int:
        """Return the largest size within a limit; 0 if there is none."""
        if limit < self.smallest:
            return 0
        last = np.searchsorted(self._ends, self._ends + limit, side="right") - 1
        return int((self._ends[last] - self._ends).max())

    def ladder(self) -> list[int]:
        """Return some sizes in about a geometric sequence, including the smallest and the largest."""
        rungs = [self.smallest]
        step = 1
        while rungs[-1] < self.largest:
            size = self.floor(int(self.smallest * _GROWTH**step))
            if size > rungs[-1]:
                rungs.append(size)
            step += 1
        return rungs

    def all(self) -> list[int]:
        """Return all sizes, ascending."""
        runs = np.unique(self._ends[None, :] - self._ends[:, None])
        return [int(size) for size in runs[runs >= self.smallest]]
