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


@final
class ByteRing:
    """Reservations of contiguous bytes, released first in, first out.

    A reservation that does not fit after the newest one starts at 0, and the bytes at the end stay
    unused. An empty ring starts at 0 again, so any length up to the capacity fits eventually. Not
    thread-safe.
    """

    def __init__(self, capacity_bytes: int, alignment: int = PAGE_BYTES) -> None:
        """Create an empty ring.

        The capacity is rounded down to a multiple of the alignment, and lengths up.

        Raises:
          ValueError: if the capacity is less than the alignment.
        """
        if alignment < 1 or capacity_bytes < alignment:
            raise ValueError(
                f"a ring of {capacity_bytes} bytes is smaller than its alignment of {alignment}"
            )
        self.alignment = alignment
        self.capacity_bytes = capacity_bytes // alignment * alignment
        self._held: deque[tuple[int, int]] = deque()
        """(offset, length) of each reservation, oldest first."""

    def __len__(self) -> int:
        return len(self._held)

    @property
    def held_bytes(self) -> int:
        """Reserved bytes, including padding to the alignment."""
        return sum(length for _, length in self._held)

    def reserve(self, nbytes: int) -> int | None:
        """Reserve contiguous bytes and return their offset, or None until more is released.

        Raises:
          ValueError: if `nbytes` is not positive or exceeds the capacity.
        """
        length = aligned(nbytes, self.alignment)
        if not 0 < length <= self.capacity_bytes:
            raise ValueError(
                f"{nbytes} bytes, aligned to {self.alignment}, do not fit into a ring of "
                f"{self.capacity_bytes}"
            )
        offset = self._gap(length)
        if offset is not None:
            self._held.append((offset, length))
        return offset

    def release(self) -> None:
        """Release the oldest reservation.

        Raises:
          IndexError: if the ring is empty.
        """
        self._held.popleft()

    def _gap(self, length: int) -> int | None:
        if not self._held:
            return 0
        oldest, _ = self._held[0]
        newest, newest_length = self._held[-1]
        end = newest + newest_length
        if newest < oldest:  # wrapped around the end
            return end if oldest - end >= length else None
        if self.capacity_bytes - end >= length:
            return end
        return 0 if oldest >= length else None


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
    """Allocate a sequence so that each reservation waits for as few releases as possible.

    Offsets depend on the lengths only, never on timing, so captured graphs can use fixed addresses.

    Raises:
      ValueError: if a length does not fit into the ring.
    """
    ring = ByteRing(capacity_bytes, alignment)
    reserved: list[RingPlace] = []
    for i, nbytes in enumerate(lengths):
        while (offset := ring.reserve(nbytes)) is None:
            ring.release()
        released = i - len(ring)  # earlier reservations that were released
        reserved.append(RingPlace(offset, released if released >= 0 else None))
    return tuple(reserved)


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
    rounded = [aligned(one, alignment) for one in lengths]
    usable = ByteRing(capacity_bytes, alignment)
    for nbytes in {*lengths}:
        usable.reserve(nbytes)
        usable.release()
    laps = [*_laps(rounded, usable.capacity_bytes)]
    begins = [[*accumulate((rounded[i] for i in lap[:-1]), initial=0)] for lap in laps]
    ends = [own[-1] + rounded[lap[-1]] for own, lap in zip(begins, laps, strict=True)]
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
        rounded = [aligned(one, alignment) for one in lengths]
        self.smallest: int = max(rounded)
        self.largest: int = sum(rounded)
        self._ends = np.cumsum([0, *rounded])

    def floor(self, limit: int) -> int:
        """Return the largest size within a limit; 0 if there is none."""
        if limit < self.smallest:
            return 0
        last = np.searchsorted(self._ends, self._ends + limit, side="right") - 1
        return int((self._ends[last] - self._ends).max())

    def ladder(self, growth: float = _GROWTH) -> list[int]:
        """Return some sizes in about a geometric sequence, including the smallest and the largest."""
        rungs = [self.smallest]
        step = 1
        while rungs[-1] < self.largest:
            size = self.floor(int(self.smallest * growth**step))
            if size > rungs[-1]:
                rungs.append(size)
            step += 1
        return rungs

    def all(self) -> list[int]:
        """Return all sizes, ascending."""
        runs = np.unique(self._ends[None, :] - self._ends[:, None])
        return [int(one) for one in runs[runs >= self.smallest]]
