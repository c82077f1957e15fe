"""Random search: every architecture is equally likely, always."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Int64
from numpy import ndarray

from controller.base import Choices, ControllerConfig, NoPreference, Score, ScoredTrials
from controller.replicated import ReplicaGenerators
from controller.rows import all_valid


@final
class UniformDraws:
    """Valid architectures drawn uniformly, from each replica's own stream."""

    def __init__(self, space: Choices, generators: ReplicaGenerators) -> None:
        self._space = space
        self._all_valid = all_valid(space)
        self._num_choices = np.array(space.num_choices)
        self._generators = generators

    def __call__(self, count: int) -> Int64[ndarray, "R B D"]:
        """Draw as many for each replica."""
        if not self._all_valid:
            return np.stack([self._space.sample(g, count) for g in self._generators.each])
        u = self._generators.uniform(count, len(self._num_choices))
        rows: Int64[ndarray, "R B D"] = (u * self._num_choices).astype(np.int64)
        return rows


@final
class UniformController(NoPreference):
    """Draws architectures uniformly and learns nothing: the baseline of every searcher."""

    def __init__(self, space: Choices, seeds: Sequence[int]) -> None:
        self._generators = ReplicaGenerators(seeds)
        self._draw = UniformDraws(space, self._generators)

    def sample(self, batch_size: int) -> Int64[ndarray, "R B D"]:
        """Draw architectures, a batch for each replica."""
        return self._draw(batch_size)

    def learn(self, trials: ScoredTrials, score: Score) -> None:
        """Nothing to learn."""


@final
@dataclass
class UniformConfig(ControllerConfig):
    """Settings of random search: none."""

    def build(self, space: Choices, seeds: Sequence[int]) -> UniformController:
        """Make the controller, with one replica for each seed."""
        return UniformController(space, seeds)
