"""Measures of how networks shared a device."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.papers.results import Row
from benchmarks.papers.schedule_metrics import turnaround_slowdowns
from runtime.scheduling.metrics import antt, finish_spread_ms, jain_fairness, stp
from runtime.scheduling.schedule import Schedule


def sharing(schedule: Schedule, alone_ms: Sequence[float]) -> Row:
    """Throughput, mean slowdown and fairness; empty if a network did not end or a time is unknown.

    `alone_ms` is the time of all inferences of each network alone.
    """
    if min(alone_ms, default=0.0) <= 0:
        return {}
    slowed = turnaround_slowdowns(schedule, alone_ms)
    if not np.isfinite(slowed).all():
        return {}
    return {
        "stp": round(stp(slowed), 4),
        "antt": round(antt(slowed), 4),
        "fairness": round(jain_fairness(slowed), 4),
        "ends_ms": round(finish_spread_ms(schedule), 4),
    }
