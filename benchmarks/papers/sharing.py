"""Measures of how networks shared a device, and traces of their schedules for Perfetto."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from benchmarks.papers.chrome_trace import write_trace
from benchmarks.papers.config import BenchConfig
from benchmarks.papers.results import Row
from benchmarks.papers.schedule_metrics import turnaround_slowdowns
from benchmarks.papers.steps import one_line
from runtime.scheduling.metrics import antt, finish_spread_ms, jain_fairness, stp
from runtime.scheduling.schedule import Schedule


def sharing(schedule: Schedule, alone_ms: Sequence[float]) -> Row:
    """Throughput, mean slowdown and fairness; empty if a network did not end or a time is unknown.

    `alone_ms` is the time of all inferences of each network alone.
    """
    if not alone_ms:
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


def kept_trace(
    config: BenchConfig,
    name: str,
    run: Callable[[], Schedule],
    measures: Callable[[Schedule], Row] = lambda _: {},
) -> Row:
    """Write the trace `traces/<experiment>-<name>.json`; an error does not lose the measurement.

    `measures` returns further values of the row.

    Returns:
      `trace`, the path relative to the results, and the further values; or `trace_error`.
    """
    title = re.sub(r"[^\w.-]+", "-", f"{config.experiment.value}-{name}")
    path = Path("traces") / f"{title}.json"
    try:
        schedule = run()
        values = measures(schedule)
        write_trace(schedule, Path(config.out) / path)
    except Exception as error:  # noqa: BLE001 - a trace is not worth a measurement
        return {"trace_error": one_line(error)}
    return {**values, "trace": path.as_posix()}
