"""R independent searches side by side, each with a random stream that depends on its seed alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from controller.base import Choices, NoPreference, Score, ScoredTrials


@final
class ReplicaGenerators:
    """R generators that draw side by side."""

    def __init__(self, seeds: Sequence[int]) -> None:
        self.each = [np.random.default_rng(seed) for seed in seeds]

    def uniform(self, *shape: int) -> Float64[ndarray, "R *shape"]:
        """Numbers in [0, 1), from each replica's own stream."""
        return np.stack([generator.random(shape) for generator in self.each])


class ReplicaTrials(NamedTuple):
    """Evaluated architectures of one replica."""

    architectures: Int64[ndarray, "B D"]
    accuracy: Float64[ndarray, "B"]  # NaN where failed, as the ratios
    ratios: Float64[ndarray, "B M"]
    failed: Bool[ndarray, "B"]


class OneSearch(ABC):
    """Search of one replica; its proposals depend only on its generator and its trials."""

    @abstractmethod
    def propose(self, count: int) -> Int64[ndarray, "B D"]:
        """The next architectures to be evaluated, all of them valid and normal."""

    @abstractmethod
    def learn(self, trials: ReplicaTrials, score: Score) -> None:
        """Add evaluated architectures."""


@final
class ReplicatedController(NoPreference):
    """A search for each seed, each with a generator of its own."""

    def __init__(
        self,
        space: Choices,
        begin: Callable[[np.random.Generator], OneSearch],
        seeds: Sequence[int],
    ) -> None:
        self._space = space
        self._searches = [begin(generator) for generator in ReplicaGenerators(seeds).each]

    def sample(self, batch_size: int) -> Int64[ndarray, "R B D"]:
        """Propose architectures, a batch for each replica."""
        return np.stack([search.propose(batch_size) for search in self._searches])

    def learn(self, trials: ScoredTrials, score: Score) -> None:
        """Learn from the accuracy, and from each cost as a share of its limit."""
        architectures = self._space.normal(trials.architectures)
        batches = zip(architectures, trials.accuracy, trials.ratios, trials.failed, strict=True)
        for search, batch in zip(self._searches, batches, strict=True):
            search.learn(ReplicaTrials(*batch), score)
