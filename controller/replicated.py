"""R searches side by side, each an object that knows of one search only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol, final

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from controller.base import Choices, NoPreference, Score, ScoredTrials
from controller.randomness import ReplicaGenerators
from controller.state import require_shapes


class ReplicaTrials(NamedTuple):
    """Evaluated architectures of one replica."""

    architectures: Int64[ndarray, "B D"]
    accuracy: Float64[ndarray, "B"]  # NaN where failed, as the ratios
    ratios: Float64[ndarray, "B M"]
    failed: Bool[ndarray, "B"]


class OneSearch(Protocol):
    """One search. Its trials decide what comes next, and where its generator stands."""

    @property
    def shapes(self) -> Mapping[str, tuple[int | None, ...]]:
        """Names and shapes of the arrays of its state; None stands for any length."""

    def propose(self, count: int) -> Int64[ndarray, "B D"]:
        """The next architectures to be evaluated, all of them valid and normal."""

    def learn(self, trials: ReplicaTrials, score: Score) -> None:
        """Take in evaluated architectures."""

    def state(self) -> dict[str, ndarray]:
        """Its trials, as arrays of the same shapes in every replica."""

    def restore(self, state: Mapping[str, ndarray]) -> None:
        """Go on where `state` was taken."""


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
        self._generators = ReplicaGenerators(seeds)
        self._searches = [begin(generator) for generator in self._generators.each]

    def sample(self, batch_size: int) -> Int64[ndarray, "R B D"]:
        """Propose architectures, a batch for each replica."""
        return np.stack([search.propose(batch_size) for search in self._searches])

    def learn(self, trials: ScoredTrials, score: Score) -> None:
        """Learn from the accuracy, and from each cost as a share of its limit."""
        architectures = self._space.normal(trials.architectures)
        batches = zip(architectures, trials.accuracy, trials.ratios, trials.failed, strict=True)
        for search, batch in zip(self._searches, batches, strict=True):
            search.learn(ReplicaTrials(*batch), score)

    def state(self) -> dict[str, ndarray]:
        """The trials of each search, and the position of the random streams."""
        each = [search.state() for search in self._searches]
        stacked = {name: np.stack([state[name] for state in each]) for name in each[0]}
        return {"generators": self._generators.state(), **stacked}

    def restore(self, state: Mapping[str, ndarray]) -> None:
        """Go on exactly where `state` was taken.

        Raises:
          ValueError: if the state is of another controller or of other sizes.
        """
        replicas = len(self._searches)
        shapes = {name: (replicas, *shape) for name, shape in self._searches[0].shapes.items()}
        require_shapes(state, {"generators": (replicas,), **shapes})
        self._generators.restore(state["generators"])
        for replica, search in enumerate(self._searches):
            search.restore({name: state[name][replica] for name in shapes})
