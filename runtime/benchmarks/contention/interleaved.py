"""Interleaved measurement of one network under several conditions: short blocks in random order.

Both wall time and the thread's CPU time are taken: another program on the same core lengthens wall
time only, which distinguishes slow memory from a shared core.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, final

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from benchmarks.config import BenchConfig
from benchmarks.steps import time_is_left
from edgenas_core.contention.contention import Contention, RunningHogs
from edgenas_core.machine.timing import Stopwatch

TURN_S = 0.3
LEAST_A_TURN = 30
_SETTLE = 3
"""Warm-up inferences at the beginning of a block."""


@final
@dataclass(frozen=True)
class Condition:
    """A name, the contention, and the inference prepared for it."""

    name: str
    open: Callable[[], AbstractContextManager[Contention]]
    inference: Callable[[], object]


def beside_hogs(
    inference: Callable[[], object], hogs: RunningHogs, name: str, **contention: Any
) -> Condition:
    """A condition with running hogs; further arguments are those of `Contention`."""
    return Condition(name, partial(Contention, hogs, **contention), inference)


@final
@dataclass
class ConditionTimes:
    """Measurements of one condition."""

    blocks: list[tuple[list[float], list[float]]] = field(default_factory=list)
    """Wall times and CPU times of each block, milliseconds."""
    stolen: list[list[float]] = field(default_factory=list)
    """GB/s of each hog in each block."""

    @property
    def wall_ms(self) -> Float64[ndarray, " n"]:
        """Wall time of every inference."""
        return np.concatenate([wall for wall, _ in self.blocks])

    @property
    def cpu_ms(self) -> Float64[ndarray, " n"]:
        """CPU time of every inference."""
        return np.concatenate([cpu for _, cpu in self.blocks])

    @property
    def gb_per_s(self) -> list[float]:
        """Mean bandwidth of each hog over the blocks."""
        return [float(one) for one in np.mean(self.stolen, axis=0)]


def measure_conditions(
    config: BenchConfig,
    conditions: Sequence[Condition],
    *,
    in_all: int | None = None,
) -> dict[str, ConditionTimes]:
    """Measure a block of every condition in each round, in random order, while there is time.

    A block has `iterations` inferences, or by default takes 0.3 s and has at least 30; with `in_all`
    that many inferences are divided among the rounds if `iterations` is not set.

    Raises:
      ValueError: if a contention cannot be opened.
    """
    each = config.iterations
    if in_all is not None:
        each = math.ceil((config.iterations or in_all) / config.repeats)
    taken = {condition.name: ConditionTimes() for condition in conditions}
    generator = np.random.default_rng(0)
    for done in range(config.repeats):
        if done and not time_is_left():
            break
        for place in generator.permutation(len(conditions)):
            condition = conditions[place]
            with condition.open() as contention:
                subject = contention.during(condition.inference)
                for _ in range(_SETTLE):
                    subject()
                contention.gb_per_s()  # counts from here
                taken[condition.name].blocks.append(_block(subject, each))
                taken[condition.name].stolen.append(contention.gb_per_s())
    return taken


def _block(subject: Callable[[], None], inferences: int | None) -> tuple[list[float], list[float]]:
    wall, processor = Stopwatch(), Stopwatch(clock_ns=time.thread_time_ns)
    wall_ms: list[float] = []
    cpu_ms: list[float] = []

    def both() -> None:
        cpu_ms.append(processor.ms(subject))

    least = LEAST_A_TURN if inferences is None else inferences
    until_s = time.perf_counter() + (TURN_S if inferences is None else 0.0)
    while len(wall_ms) < least or time.perf_counter() < until_s:
        wall_ms.append(wall.ms(both))
    return wall_ms, cpu_ms
