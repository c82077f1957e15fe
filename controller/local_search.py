"""Local search with restarts (White et al., UAI 2021), moving at the first improvement."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from controller.base import ControllerConfig
from controller.choice_space import ChoiceSpace
from controller.memory import ReplicaMemories
from controller.randomness import ReplicaGenerators
from controller.state import require_shapes

_NONE = -1  # no architecture: before the first start; pads the neighbours in a state


@final
class _Climb:
    """The search of one replica: where it stands, and which neighbours it has yet to look at."""

    def __init__(
        self, space: ChoiceSpace, generator: np.random.Generator, rewards: dict[int, float]
    ) -> None:
        self._space = space
        self._generator = generator
        self._rewards = rewards
        self.restarts = 0
        self.best = _NONE
        self.here = _NONE
        self.around: frozenset[int] = frozenset()
        self.ahead: list[int] = []

    def propose(self) -> int:
        """The next neighbour that is unknown, or a new start, never the same one twice.

        Once the whole space has been proposed, the best of it is, again and again.
        """
        while self.ahead:
            number = self.ahead.pop()
            if number not in self._rewards:
                return self._proposed(number)
            if self._rewards[number] > self._rewards[self.here]:  # known from an earlier climb
                self._stand_at(number)
        if len(self._rewards) == self._space.size:
            return self.here if self.best == _NONE else self.best
        number = self._unseen()
        if not self._undecided():
            self.restarts += self.here != _NONE
            self._stand_at(number)
        return self._proposed(number)

    def learn(self, number: int, reward: float) -> None:
        """Move if this is an improvement.

        Once a start's own reward is told, all its neighbours are looked at again: those known
        from an earlier climb could not be compared with it within its batch.
        """
        self._rewards[number] = reward
        if self.best == _NONE or reward > self._rewards[self.best]:
            self.best = number
        improves = number in self.around and reward > self._rewards[self.here]
        if improves or number == self.here:
            self._stand_at(number)

    def stand_before(self, number: int, ahead: list[int]) -> None:
        """Stand at an architecture with these neighbours still to be looked at, last one first."""
        self.here = number
        if number != _NONE:
            self.around = frozenset(self._space.neighbours(number).tolist())
        self.ahead = ahead

    def _stand_at(self, number: int) -> None:
        order = self._generator.permutation(self._space.neighbours(number))
        self.stand_before(number, order.tolist())

    def _proposed(self, number: int) -> int:
        self._rewards[number] = math.nan
        return number

    def _unseen(self) -> int:
        while (number := int(self._generator.integers(self._space.size))) in self._rewards:
            pass
        return number

    def _undecided(self) -> bool:
        """Whether an outstanding reward may yet show that this is no local optimum."""
        return any(math.isnan(self._rewards.get(n, 0.0)) for n in (self.here, *self.around))


@final
class LocalSearchController:
    """Climbs from a random architecture to a local optimum, and again from another one.

    A batch that outruns the neighbours of where it stands is filled with random architectures,
    which are remembered, so that no climb asks for them again.
    """

    def __init__(self, num_choices: Sequence[int], seeds: Sequence[int]) -> None:
        self._space = ChoiceSpace(tuple(num_choices))
        self._generators = ReplicaGenerators(seeds)
        self._memories = ReplicaMemories(len(seeds))
        self._climbs = [
            _Climb(self._space, generator, rewards)
            for generator, rewards in zip(self._generators.each, self._memories.each, strict=True)
        ]

    def sample(self, batch_size: int) -> Int64[ndarray, "R B D"]:
        """Propose architectures, a batch for each replica."""
        numbers = [[climb.propose() for _ in range(batch_size)] for climb in self._climbs]
        return self._space.architectures(np.array(numbers, np.int64))

    def update(
        self, architectures: Int64[ndarray, "R B D"], rewards: Float64[ndarray, "R B"]
    ) -> None:
        """Learn from the rewards of proposed architectures."""
        numbers = self._space.numbers(architectures).tolist()
        for climb, row, told in zip(self._climbs, numbers, rewards.tolist(), strict=True):
            for number, reward in zip(row, told, strict=True):
                climb.learn(number, reward)

    def mode(self) -> Int64[ndarray, "R D"] | None:
        """The best seen by each replica; None before the first rewards."""
        best = np.array([climb.best for climb in self._climbs], np.int64)
        return None if (best == _NONE).any() else self._space.architectures(best)

    def diagnostics(self) -> dict[str, Float64[ndarray, "R"]]:
        """How many architectures each replica has asked for, and how often it has restarted."""
        return {
            "queries": np.array([len(memory) for memory in self._memories.each], float),
            "restarts": np.array([climb.restarts for climb in self._climbs], float),
        }

    def state(self) -> dict[str, ndarray]:
        """Everything that decides what comes next, as arrays without objects."""
        ahead = np.full((len(self._climbs), self._space.num_neighbours), _NONE, np.int64)
        for row, climb in zip(ahead, self._climbs, strict=True):
            row[: len(climb.ahead)] = climb.ahead
        return {
            "here": np.array([climb.here for climb in self._climbs], np.int64),
            "best": np.array([climb.best for climb in self._climbs], np.int64),
            "ahead": ahead,
            "restarts": np.array([climb.restarts for climb in self._climbs]),
            "generators": self._generators.state(),
            **self._memories.state(),
        }

    def restore(self, state: Mapping[str, ndarray]) -> None:
        """Go on exactly where `state` was taken.

        Raises:
          ValueError: if the state is of another controller or of other sizes.
        """
        shapes = {name: array.shape for name, array in self.state().items()}
        require_shapes(state, {**shapes, **ReplicaMemories.shapes})
        self._generators.restore(state["generators"])
        self._memories.restore(state)
        for replica, climb in enumerate(self._climbs):
            climb.restarts = int(state["restarts"][replica])
            climb.best = int(state["best"][replica])
            ahead = state["ahead"][replica]
            climb.stand_before(int(state["here"][replica]), ahead[ahead != _NONE].tolist())


@final
@dataclass
class LocalSearchConfig(ControllerConfig):
    """Settings of local search: none but the batch."""

    def build(self, num_choices: Sequence[int], seeds: Sequence[int]) -> LocalSearchController:
        """The controller for positions with these numbers of options, a replica a seed.

        Raises:
          ValueError: if the space has more architectures than can be numbered.
        """
        return LocalSearchController(num_choices, seeds)
