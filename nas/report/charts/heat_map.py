"""Heat map: the number of samples in each range of latency and accuracy."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from common.page.parts import Figure
from nas.report.charts.limit_line import limit_line
from nas.report.wording import Wording
from nas.trials.trial import Trials

_RANGES = 40
"""Ranges an axis, at most."""


def heat_map(done: Trials, limit_ms: float, wording: Wording) -> Figure:
    """Counts by latency, whose ranges end at T, and by accuracy."""
    slowest, fastest = done.latency_ms.max(), done.latency_ms.min()
    percent = done.accuracy * 100
    x_step = _step(max(slowest, limit_ms) - min(fastest, limit_ms))
    y_step = _step(percent.max() - percent.min())
    columns, right = _ranges(done.latency_ms, limit_ms, x_step)
    rows, top = _ranges(percent, 100.0, y_step)
    counts = np.zeros((len(top), len(right)), np.int64)
    np.add.at(counts, (rows, columns), 1)
    ticks = [10**power for power in range(math.ceil(math.log10(counts.max())) + 1)]
    with np.errstate(divide="ignore"):
        shown = np.where(counts > 0, np.log10(counts), np.nan)
    return Figure(
        "Where the samples fell",
        [
            {
                "type": "heatmap",
                "x": right - x_step / 2,
                "y": top - y_step / 2,
                "z": shown,
                "customdata": counts,
                "zmin": 0,
                "zmax": max(1.0, float(np.log10(counts.max()))),
                "xgap": 1,
                "ygap": 1,
                "hoverongaps": False,
                "colorbar": {
                    "title": {"text": "samples"},
                    "tickvals": [math.log10(tick) for tick in ticks],
                    "ticktext": [f"{tick:,}" for tick in ticks],
                },
                "hovertemplate": (
                    f"%{{customdata:,}} samples<br>%{{x}} ± {x_step / 2:g} ms<br>"
                    f"%{{y}} ± {y_step / 2:g} %<extra></extra>"
                ),
            }
        ],
        {
            "xaxis": {"title": {"text": wording.latency_axis}},
            "yaxis": {"title": {"text": wording.accuracy_axis}},
            **limit_line(limit_ms, wording),
        },
        f"All {len(done):,} samples, in steps of {x_step:g} ms from T and of {y_step:g} "
        f"points; the colour is logarithmic.",
    )


def _ranges(
    values: Float64[ndarray, "n"], end: float, step: float
) -> tuple[Int64[ndarray, "n"], Float64[ndarray, "ranges"]]:
    """Range of this width of each value, and the ends of the ranges; one of them is `end`.

    A range holds its end, as the limit itself is within the limit.
    """
    number = np.ceil((values - end) / step).astype(np.int64)
    first = number.min()
    return number - first, end + step * np.arange(first, number.max() + 1)


def _step(whole: float) -> float:
    """Width of the ranges that this is cut into: 1, 2, 5, 10, 20, ... or a part of these."""
    at_least = whole / _RANGES
    if at_least <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(at_least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= at_least)
