"""Rows of the contention experiment, made from its samples."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from benchmarks.contention.interleaved import ConditionTimes
from benchmarks.contention.sensitivity import LEAST_LEVELS, fit, held_out_errors
from benchmarks.results import Row, summary
from edgenas_core.contention.contention import Contention
from edgenas_core.contention.hogs.control_page import GB, MB

_MOST_SAMPLES = 2000
"""Largest number of samples in the file; statistics use all samples."""
_HOG_S = 0.3
SPINNER = "spin"
"""Name of a hog that stays in its core's cache, and of the scenario that has only it."""
_CURVE = ("solo", "corun", "none", "budget", "fine_lock")
"""Scenarios whose hogs run throughout at a steady rate."""


def counts(most: int) -> list[int]:
    """Numbers of hogs: 1 to 4, then doubling, and the maximum."""
    return sorted({*range(1, min(most, 4) + 1), *(2**k for k in range(most.bit_length())), most})


def hog_row(name: str, limit_mb_per_s: float, beside: Contention) -> Row:
    """Bandwidth of hogs without another program."""
    beside.gb_per_s()
    time.sleep(_HOG_S)
    each = [one for one in beside.gb_per_s() if one > 0]
    return {
        "part": "hogs",
        "hog": name,
        "hogs": len(each),
        "limit_mb_per_s": _finite(limit_mb_per_s),
        **({} if name == SPINNER else {"achieved_mb_per_s": round(sum(each) * GB / MB, 2)}),
        **_bandwidth(name, each),
        "stolen_gb_per_s": 0.0 if name == SPINNER else round(sum(each), 4),
    }


def rows_of(part: str, victim: str, taken: Mapping[str, ConditionTimes]) -> Iterator[Row]:
    """One row for each scenario; the first is the network alone."""
    alone = next(iter(taken.values()))
    alone_ms, alone_cpu_ms = np.median(alone.wall_ms), np.median(alone.cpu_ms)
    for name, one in taken.items():
        wall, processor = one.wall_ms, one.cpu_ms
        yield {
            "part": part,
            "victim": victim,
            "scenario": name,
            "n": len(wall),
            **summary([float(ms) for ms in wall]),
            "samples_ms": [round(float(ms), 4) for ms in wall[:_MOST_SAMPLES]],
            "mean_ms": float(wall.mean()),
            "p99_ms": float(np.quantile(wall, 0.99)),
            "worst_ms": float(wall.max()),
            "variance_ms2": float(wall.var()),
            "cpu_ms": float(np.median(processor)),
            "against_solo": float(np.median(wall) / alone_ms),
            "cpu_against_solo": float(np.median(processor) / alone_cpu_ms),
            **_bandwidth(name, one.gb_per_s),
            "stolen_gb_per_s": 0.0 if name == SPINNER else round(float(sum(one.gb_per_s)), 4),
        }


def curve(victim: str, taken: Mapping[str, ConditionTimes], clock: str) -> Iterator[Row]:
    """The slowdown as a function of stolen bandwidth, and its error at held-out levels.

    The first scenario is the network alone. The clock is `wall_ms`, or on a CPU `cpu_ms`, which a
    shared core does not lengthen.
    """
    steady = {
        name: one
        for name, one in taken.items()
        if name.split(" ")[0].rstrip("0123456789") in _CURVE
    }
    alone = np.median(getattr(next(iter(taken.values())), clock))
    stolen = np.array([sum(one.gb_per_s) for one in steady.values()])
    slower = np.array([float(np.median(getattr(one, clock)) / alone) for one in steady.values()])
    if len(np.unique(stolen)) <= LEAST_LEVELS:
        return
    fitted = fit(stolen, slower)
    off = np.abs(held_out_errors(stolen, slower))
    yield {
        "part": "curve",
        "victim": victim,
        "clock": clock,
        "per_gb_per_s": fitted.per_gb_per_s,
        "saturation_gb_per_s": fitted.saturation_gb_per_s,
        "most_gb_per_s": fitted.most_gb_per_s,
        "median_held_out_error": float(np.median(off)),
        "largest_held_out_error": float(off.max()),
        "levels": len(slower),
        "stolen_gb_per_s": stolen.round(4).tolist(),
        "slowdown": slower.round(5).tolist(),
        "fitted": fitted.slowdown(stolen).round(5).tolist(),
    }


def _bandwidth(name: str, each: Sequence[float]) -> Row:
    """Bandwidth of each hog, named by whether it reaches the memory."""
    where = "in_cache_gb_per_s" if name == SPINNER else "gb_per_s"
    return {where: [round(one, 4) for one in each]}


def _finite(limit: float) -> float | None:
    return limit if math.isfinite(limit) else None
