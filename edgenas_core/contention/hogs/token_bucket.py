"""A token bucket: limits the average rate of bytes, and allows short bursts."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import final


@final
class TokenBucket:
    """Taking more than the bucket holds leaves a debt; the next call waits until it is paid.

    So no piece is too large, and the rate holds for any size of pieces.
    """

    def __init__(
        self,
        bytes_per_s: float = math.inf,
        burst_s: float = 1e-3,
        clock_s: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Start empty and without debt.

        A rate of 0 allows nothing, infinity everything; the capacity is `burst_s` at this rate.
        """
        self._burst_s = burst_s
        self._clock_s = clock_s
        self._rate = bytes_per_s
        self._at_s = clock_s()
        self._level = 0.0  # below 0: a debt

    def rate(self, bytes_per_s: float) -> None:
        """Set the rate; a debt stays, so that frequent changes do not raise the average rate."""
        if bytes_per_s != self._rate:
            self._fill()
            self._rate = bytes_per_s

    def take(self, size: float) -> float:
        """Take `size` bytes and return 0, or take none and return the seconds to wait."""
        if self._rate == math.inf:
            return 0.0
        if self._rate <= 0:
            return math.inf
        self._fill()
        if self._level < 0:
            return -self._level / self._rate
        self._level -= size
        return 0.0

    def _fill(self) -> None:
        now_s = self._clock_s()
        if self._rate < math.inf:
            grown = self._level + (now_s - self._at_s) * self._rate
            self._level = min(grown, self._burst_s * self._rate)
        self._at_s = now_s
