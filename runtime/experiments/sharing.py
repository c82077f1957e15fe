"""How a device was shared, and where a run is kept that Perfetto opens."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from runtime.experiments.config import BenchConfig
from runtime.experiments.driver import one_line
from runtime.page.results import Row
from runtime.scheduling.chrome_trace import write_trace
from runtime.scheduling.metrics import (
    antt,
    finish_spread_ms,
    jain_fairness,
    stp,
    turnaround_slowdowns,
)
from runtime.scheduling.schedule import Schedule


def sharing(schedule: Schedule, alone_ms: Sequence[float]) -> Row:
    """Throughput, mean slowdown and fairness; nothing if a network did not end, or no time is known.

    Args:
      schedule: of a closed set.
      alone_ms: what all inferences of each network take alone.
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
    tell: Callable[[Schedule], Row] = lambda _: {},
) -> Row:
    """Writes `traces/<experiment>-<name>.json` beside the results; what was measured is safe of it.

    Args:
      config: of the experiment, and where its results go.
      name: of the run, among the experiment's.
      run: gives the schedule.
      tell: what else is to be said of it.

    Returns:
      `trace`, its path from the results, and what is told; or `trace_error`, why there is none.
    """
    title = re.sub(r"[^\w.-]+", "-", f"{config.experiment.value}-{name}")
    path = Path("traces") / f"{title}.json"
    try:
        schedule = run()
        told = tell(schedule)
        write_trace(schedule, Path(config.out) / path)
    except Exception as error:  # noqa: BLE001 - a trace is not worth a measurement
        return {"trace_error": one_line(error)}
    return {**told, "trace": path.as_posix()}
