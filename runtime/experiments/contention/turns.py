"""A network's conditions in turns, as the settings of the experiment ask."""

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
    """Every condition so many times as asked for, while there is time.

    Args:
      config: how many rounds, and inferences.
      conditions: to be compared.
      in_all: inferences of a condition in all rounds together, if none are asked for; None for
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
