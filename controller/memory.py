"""What each replica has proposed and been told, so that nothing is evaluated twice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, final

import numpy as np
from numpy import ndarray


@final
class ReplicaMemories:
    """The rewards that R replicas know, by number of the architecture, in order of proposal.

    A proposed architecture whose reward is outstanding has NaN.
    """

    shapes: ClassVar[dict[str, tuple[int | None, ...]]] = {
        "known_numbers": (None,),
        "known_rewards": (None,),
    }

    def __init__(self, replicas: int) -> None:
        self.each: list[dict[int, float]] = [{} for _ in range(replicas)]

    def state(self) -> dict[str, ndarray]:
        """The memories one after another, and how long each is."""
        return {
            "known_numbers": np.array([n for memory in self.each for n in memory], np.int64),
            "known_rewards": np.array([r for m in self.each for r in m.values()], float),
            "known_counts": np.array([len(memory) for memory in self.each]),
        }

    def restore(self, state: Mapping[str, ndarray]) -> None:
        """Know what was known when `state` was taken; the dictionaries stay the same objects."""
        numbers, rewards = state["known_numbers"].tolist(), state["known_rewards"].tolist()
        start = 0
        for memory, count in zip(self.each, state["known_counts"].tolist(), strict=True):
            stop = start + count
            memory.clear()
            memory.update(zip(numbers[start:stop], rewards[start:stop], strict=True))
            start = stop
