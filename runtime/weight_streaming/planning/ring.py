"""Who may be where in a circular buffer; the bytes themselves are elsewhere."""

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
"""What direct input and output asks of offsets and lengths."""


@final
class ByteRing:
    """Reservations of contiguous bytes, freed in the order in which they were made.

    A reservation that does not fit behind the newest one begins at 0; the bytes left over at the
    end wait for the next round. An empty ring begins at 0 again, so whatever is no larger than the
    ring fits at some time. Not safe for threads: one of them, or a lock, owns it.
    """

    def __init__(self, capacity_bytes: int, alignment: int = PAGE_BYTES) -> None:
        """Begins empty.

        Args:
          capacity_bytes: of the buffer; what exceeds a multiple of the alignment is never used.
          alignment: of offsets; lengths are rounded up to it.

        Raises:
          ValueError: if there is no room for one aligned piece.
        """
        if alignment < 1 or capacity_bytes < alignment:
            raise ValueError(f"a ring of {capacity_bytes} bytes in pieces of {alignment}")
        self.alignment = alignment
        self.capacity_bytes = capacity_bytes // alignment * alignment
        self._held: deque[tuple[int, int]] = deque()
        """Offset and length, oldest first."""

    def __len__(self) -> int:
        return len(self._held)

    @property
    def held_bytes(self) -> int:
        """Reserved and not yet released, with what alignment adds."""
        return sum(length for _, length in self._held)

    def reserve(self, nbytes: int) -> int | None:
        """The offset of so many bytes, or None: they have to wait for a release.

        Raises:
          ValueError: if they would not fit into the empty ring either, or are none.
        """
        length = aligned(nbytes, self.alignment)
        if not 0 < length <= self.capacity_bytes:
            raise ValueError(
                f"{nbytes} bytes, in pieces of {self.alignment}, do not fit into a ring of "
                f"{self.capacity_bytes}"
            )
        offset = self._gap(length)
        if offset is not None:
            self._held.append((offset, length))
        return offset

    def release(self) -> None:
        """Frees the oldest reservation.

        Raises:
          IndexError: if there is none.
        """
        self._held.popleft()

    def _gap(self, length: int) -> int | None:
        if not self._held:
            return 0
        oldest, _ = self._held[0]
        newest, newest_length = self._held[-1]
        end = newest + newest_length
        if newest < oldest:  # the reservations go around the end
            return end if oldest - end >= length else None
        if self.capacity_bytes - end >= length:
            return end
        return 0 if oldest >= length else None


def aligned(nbytes: int, alignment: int = PAGE_BYTES) -> int:
    """Rounded up to a multiple."""
    return -(-nbytes // alignment) * alignment


@final
@dataclass(frozen=True)
class Place:
    """Where one of a sequence of reservations is, always."""

    offset: int
    after: int | None
    """Index of the last reservation that has to be released before; None: it need not wait.

    Below 0 it is one of the same sequence's round before this one, counted from its end.
    """


def places(
    lengths: Sequence[int], capacity_bytes: int, alignment: int = PAGE_BYTES
) -> tuple[Place, ...]:
    """Where a sequence goes if each waits for as few releases as it can, however long those take.

    The ring is asked before anything is released that need not be, so that no place depends on
    time: what runs on the bytes, a captured graph for one, finds them at the same address each time.

    Raises:
      ValueError: if a length does not fit into the ring.
    """
    ring = ByteRing(capacity_bytes, alignment)
    found: list[Place] = []
    for i, nbytes in enumerate(lengths):
        while (offset := ring.reserve(nbytes)) is None:
            ring.release()
        released = i - len(ring)  # what was there before and is not any more
        found.append(Place(offset, released if released >= 0 else None))
    return tuple(found)


def cyclic_places(
    lengths: Sequence[int], capacity_bytes: int, alignment: int = PAGE_BYTES
) -> tuple[Place, ...]:
    """Where a sequence goes that follows itself, round after round, each time to the same places.

    It goes through the ring in laps. If each were as long as the ring, the last could be short, and the
    next round, which begins at 0 again, would have to wait for what comes nearly last: so all are
    about equally long. Whoever lies where nobody of its own round did waits for the last there of the
    round before, at the latest for itself.

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
    found = []
    for number, lap in enumerate(laps):
        for i, begin in zip(lap, begins[number], strict=True):
            before = number - 1
            while ends[before] <= begin:  # below 0 they are laps of the round before
                before -= 1
            last = laps[before][bisect_left(begins[before], begin + rounded[i]) - 1]
            found.append(Place(begin, last if before >= 0 else last - len(lengths)))
    return tuple(found)


def _laps(lengths: Sequence[int], capacity: int) -> Iterator[range]:
    """As few neighbours together as fit, each time about the same share of what is left."""
    sums = [*accumulate(lengths, initial=0)]
    furthest = [bisect_right(sums, begin + capacity) - 1 for begin in sums[:-1]]
    fewest = [0] * len(sums)  # laps from each on
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
