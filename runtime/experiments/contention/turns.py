"""Interleaved measurement of the conditions of a network, by the settings of the experiment."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from runtime.experiments.config import BenchConfig
from runtime.experiments.contention.interleaved import (
    Condition,
    ConditionTimes,
    measure_interleaved,
)
from runtime.experiments.deadline import time_is_left


def taken_in_turns(
    config: BenchConfig,
    conditions: Sequence[Condition],
    *,
    in_all: int | None = None,
    beat: Callable[[], object] = lambda: None,
) -> dict[str, ConditionTimes]:
    """Measure all conditions in the configured number of rounds, while there is time.

    Args:
      config: numbers of rounds and inferences.
      conditions: conditions to compare.
      in_all: total inferences of a condition over all rounds, if `iterations` is not set; None for
        `iterations` in each round.
      beat: called after each inference.
    """
    each = config.iterations
    if in_all is not None:
        each = math.ceil((config.iterations or in_all) / config.repeats)
    return measure_interleaved(
        conditions,
        config.repeats,
        np.random.default_rng(0),
        inferences=each,
        beat=beat,
        go_on=time_is_left,
    )
