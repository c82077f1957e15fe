"""A token bucket: so many bytes a second in the long run, a burst of a few at once."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import final


@final
class TokenBucket:
    """Whoever takes more than is there goes into debt, and the next one waits until it is paid.

    So no piece is too large for a bucket, and the rate holds whatever the pieces.
    """

    def __init__(
        self,
        bytes_per_s: float = math.inf,
        burst_s: float = 1e-3,
        clock_s: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Starts empty, and owing nothing.

        Args:
          bytes_per_s: the rate; 0 lets nobody take anything, infinity everybody.
          burst_s: what it holds, as time at this rate.
          clock_s: monotonic.
        """
        self._burst_s = burst_s
        self._clock_s = clock_s
        self._rate = bytes_per_s
        self._at_s = clock_s()
        self._level = 0.0  # below 0: a debt

    def rate(self, bytes_per_s: float) -> None:
        """Sets the rate; a debt stays, so that who changes it often gives nothing away."""
        if bytes_per_s != self._rate:
            self._fill()
            self._rate = bytes_per_s

    def take(self, size: float) -> float:
        """Takes so many bytes, and gives 0; or takes none, and gives the seconds to wait."""
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
