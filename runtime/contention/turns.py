"""One network under several conditions in turns: short blocks, each round in a new order.

The thread's own processor time is taken beside the time on the wall: another program on the same core
lengthens the second only, so that a slow memory and a shared core are told apart.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import final

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from runtime.contention.situation import Situation
from runtime.machine.timing import Stopwatch

TURN_S = 0.3
LEAST_A_TURN = 30
_SETTLE = 3
"""Inferences at the beginning of a block that do not count."""


@final
@dataclass(frozen=True)
class Condition:
    """A name, a situation, and the inference as it was prepared for it."""

    name: str
    open: Callable[[], AbstractContextManager[Situation]]
    inference: Callable[[], object]


@final
@dataclass
class Taken:
    """Of one condition."""

    blocks: list[tuple[list[float], list[float]]] = field(default_factory=list)
    """Times on the wall and of the processor, milliseconds."""
    stolen: list[list[float]] = field(default_factory=list)
    """GB/s of each hog in each block."""

    @property
    def wall_ms(self) -> Float64[ndarray, " n"]:
        """Of every inference."""
        return np.concatenate([wall for wall, _ in self.blocks])

    @property
    def cpu_ms(self) -> Float64[ndarray, " n"]:
        """Of every inference: what its thread computed, without waits."""
        return np.concatenate([cpu for _, cpu in self.blocks])

    @property
    def gb_per_s(self) -> list[float]:
        """Of each hog, the mean of its blocks."""
        return [float(one) for one in np.mean(self.stolen, axis=0)]


def in_turns(
    conditions: Sequence[Condition],
    rounds: int,
    generator: np.random.Generator,
    *,
    inferences: int | None = None,
    beat: Callable[[], object] = lambda: None,
    go_on: Callable[[], bool] = lambda: True,
) -> dict[str, Taken]:
    """Every condition once a round.

    Args:
      conditions: to be compared.
      rounds: blocks of each.
      generator: gives the order of a round.
      inferences: of a block; None: as many as last 0.3 s, and 30 at least.
      beat: called after each, outside its time.
      go_on: asked before each round but the first, which may be the last.

    Raises:
      ValueError: what opening a situation raises.
    """
    taken = {one.name: Taken() for one in conditions}
    for done in range(rounds):
        if done and not go_on():
            break
        for place in generator.permutation(len(conditions)):
            condition = conditions[place]
            with condition.open() as situation:
                subject = situation.during(condition.inference)
                for _ in range(_SETTLE):
                    subject()
                situation.gb_per_s()  # counts from here
                taken[condition.name].blocks.append(_block(subject, inferences, beat))
                taken[condition.name].stolen.append(situation.gb_per_s())
    return taken


def _block(
    subject: Callable[[], None], inferences: int | None, beat: Callable[[], object]
) -> tuple[list[float], list[float]]:
    wall, processor = Stopwatch(), Stopwatch(clock_ns=time.thread_time_ns)
    wall_ms: list[float] = []
    cpu_ms: list[float] = []

    def both() -> None:
        cpu_ms.append(processor.ms(subject))

    least = LEAST_A_TURN if inferences is None else inferences
    until_s = time.perf_counter() + (TURN_S if inferences is None else 0.0)
    while len(wall_ms) < least or time.perf_counter() < until_s:
        wall_ms.append(wall.ms(both))
        beat()
    return wall_ms, cpu_ms
