"""Times of a measurement that the other networks contradict: taken again before they are believed."""

from __future__ import annotations

from collections import Counter

import numpy as np

from edgenas_core.machine.timing import Statistic
from latency.base import Space
from latency.models.plausibility import faster_than_others_say

FAST = "implausibly fast"

Rows = list[dict[str, str]]


def doubted(rows: Rows, space: Space) -> Rows:
    """Leave implausibly fast times out, unless every time of the network is that fast.

    A network that was timed once has not confirmed its time; `confirmed_fast` lists those that have.
    """
    fast, times = _fast(rows, space)
    of_arch = Counter(rows[at]["arch"] for at in fast)
    doubtful = {
        at
        for at in fast
        if times[rows[at]["arch"]] == 1 or of_arch[rows[at]["arch"]] < times[rows[at]["arch"]]
    }
    return [{**row, "disturbances": FAST} if at in doubtful else row for at, row in enumerate(rows)]


def confirmed_fast(rows: Rows, space: Space) -> list[str]:
    """Networks whose times are implausibly fast whenever they are taken."""
    fast, times = _fast(rows, space)
    of_arch = Counter(rows[at]["arch"] for at in fast)
    return sorted(arch for arch, count in of_arch.items() if 1 < count == times[arch])


def _fast(rows: Rows, space: Space) -> tuple[list[int], Counter[str]]:
    """Positions of valid times that are implausibly fast, and how often each network was timed."""
    quiet = [at for at, row in enumerate(rows) if not row["disturbances"]]
    times = Counter(rows[at]["arch"] for at in quiet)
    if not quiet:
        return [], times
    architectures = np.stack([space.parse(rows[at]["arch"]) for at in quiet])
    latency_ms = np.array([float(rows[at][f"{Statistic.median.value}_ms"]) for at in quiet])
    fast = faster_than_others_say(space, architectures, latency_ms)
    return [quiet[at] for at in np.flatnonzero(fast)], times
