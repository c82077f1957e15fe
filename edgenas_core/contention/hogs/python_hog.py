"""A hog that runs a network, in a Python process.

    python -m edgenas_core.contention.hogs.python_hog FILE HOG BYTES CORE PARENT NETWORK

The other arguments are those of hog.c; BYTES is ignored. The process ends with its parent.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable
from threading import Thread

from edgenas_core.contention.hogs.control_page import PERIOD_S, ControlPage
from edgenas_core.contention.hogs.token_bucket import TokenBucket

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
