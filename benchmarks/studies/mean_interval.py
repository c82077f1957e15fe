"""Mean of a sample with its interval."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from nas.study.evaluation.statistics import FEWEST, LEVEL, Interval, resampled


def mean_interval(values: Float64[ndarray, "n"]) -> Interval:
    """Mean of a sample, and its percentile bootstrap interval."""
    middle = float(values.mean())
    if len(values) < FEWEST:
        return Interval(middle)
    means = resampled(len(values), 0) @ values
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(middle, float(low), float(high))
