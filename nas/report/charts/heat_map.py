"""Heat map: the number of samples in each range of latency and accuracy."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from common.page.chart import axes, count_map, limit_line
from common.page.parts import Figure
from nas.report.answer import Answer
from nas.trials.trial import Trials

_RANGES = 40
"""Ranges an axis, at most."""


def heat_map(done: Trials, limit_ms: float, answer: Answer) -> Figure:
    """Counts by latency, whose ranges end at T, and by accuracy."""
    slowest, fastest = done.latency_ms.max(), done.latency_ms.min()
    percent = done.accuracy * 100
    x_step = _step(max(slowest, limit_ms) - min(fastest, limit_ms))
    y_step = _step(percent.max() - percent.min())
    columns, right = _ranges(done.latency_ms, limit_ms, x_step)
    rows, top = _ranges(percent, 100.0, y_step)
    samples = np.zeros((len(top), len(right)), np.int64)
    np.add.at(samples, (rows, columns), 1)
    trace = count_map(right - x_step / 2, top - y_step / 2, samples, "samples")
    trace["hovertemplate"] = (
        f"%{{customdata:,}} samples<br>%{{x}} ± {x_step / 2:g} ms<br>%{{y}} ± {y_step / 2:g} %"
        "<extra></extra>"
    )
    return Figure(
        "Where the samples fell",
        [trace],
        axes(answer.latency_axis, answer.accuracy_axis) | limit_line(limit_ms, answer.limit),
        f"All {len(done):,} samples, in steps of {x_step:g} ms from T and of {y_step:g} points; the colour "
        f"is logarithmic.",
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
