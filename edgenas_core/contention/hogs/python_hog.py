"""A hog that runs a network, in a Python process.

    python -m edgenas_core.contention.hogs.python_hog FILE HOG BYTES CORE PARENT NETWORK

The other arguments are those of hog.c; BYTES is ignored. The process ends with its parent.

Its budget is a token bucket: the average rate of bytes is limited, and short bursts are allowed.
"""

from __future__ import annotations

import ctypes
import math
import os
import signal
import sys
import time
from collections.abc import Callable
from threading import Thread
from typing import final

from edgenas_core.contention.hogs.control_page import PERIOD_S, ControlPage


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


_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Run the hog of the command line until the parent ends."""
    file, hog, _, core, parent, network = sys.argv[1:]
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):
        sys.exit(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()
    try:
        if int(core) >= 0:
            os.sched_setaffinity(0, {int(core)})
        from edgenas_core.contention.networks import load_on_cpu  # noqa: PLC0415 - after the core is chosen

        move, piece = load_on_cpu(network)
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


def _end_with_parent() -> None:
    while os.read(0, 1):
        pass
    os._exit(0)


if __name__ == "__main__":
    main()
