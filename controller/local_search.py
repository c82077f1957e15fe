"""Local search with restarts (White et al., UAI 2021), moving at the first improvement."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from controller.base import Choices, ControllerConfig, Score, ScoredTrials
from controller.replicated import ReplicaGenerators
from controller.rows import Listing, keys_of, listing, rows_of

_FAILED = -math.inf  # reward of a failed trial
_ATTEMPTS = 1_000  # random architectures that are tried for a new one where none are listed


@final
class _Climb:
    """The search of one replica: its position, and the neighbours that it has yet to evaluate.

    `rewards` holds every architecture that was proposed, in order; NaN while its trial is pending.
    """

    def __init__(
        self,
        space: Choices,
        listed: Listing | None,
        generator: np.random.Generator,
    ) -> None:
        self._space = space
        self._listed = listed
        self._generator = generator
        self.rewards: dict[bytes, float] = {}
        self.restarts = 0
        self.best: bytes | None = None
        self.here: bytes | None = None
        self.around: frozenset[bytes] = frozenset()
        self.ahead: list[bytes] = []

    def propose(self) -> bytes:
        """The next neighbour that is unknown, or a new start, never the same one twice.

        Once the whole space has been proposed, the best of it is, again and again.
        """
        while self.ahead:
            key = self.ahead.pop()
            if key not in self.rewards:
                return self._mark_proposed(key)
            if self.rewards[key] > self._reward_here():  # known from an earlier climb
                self._stand_at(key)
        start = self._unseen()
        if start is None:
            best = self.best or self.here
            assert best is not None  # the first random architecture is always new
            return best
        if not self._is_undecided():
            self.restarts += self.here is not None
            self._stand_at(start)
        return self._mark_proposed(start)

    def learn(self, key: bytes, reward: float) -> None:
        """Move if this is an improvement.

        Once the reward of a start is known, all its neighbours are looked at again: those known
        from an earlier climb could not be compared with it within its batch.
        """
        self.rewards[key] = reward
        if reward != _FAILED and (self.best is None or reward > self.rewards[self.best]):
            self.best = key
        improves = key in self.around and reward > self._reward_here()
        if improves or key == self.here:
            self._stand_at(key)

    def _stand_at(self, key: bytes) -> None:
        near = self._neighbours(key)
        self.here = key
        self.around = frozenset(near)
        self.ahead = [near[i] for i in self._generator.permutation(len(near)).tolist()]

    def _neighbours(self, key: bytes) -> list[bytes]:
        return keys_of(self._space.neighbours(np.frombuffer(key, np.int64)))

    def _reward_here(self) -> float:
        return math.nan if self.here is None else self.rewards[self.here]

    def _mark_proposed(self, key: bytes) -> bytes:
        self.rewards[key] = math.nan
        return key

    def _unseen(self) -> bytes | None:
        """A random architecture that is unknown; None if there seems to be none."""
        if self._listed is not None:
            while len(self.rewards) < len(self._listed):
                number = self._generator.integers(len(self._listed), size=1)
                (key,) = keys_of(self._listed.architectures(number))
                if key not in self.rewards:
                    return key
            return None
        for _ in range(_ATTEMPTS):
            (key,) = keys_of(self._space.sample(self._generator, 1))
            if key not in self.rewards:
                return key
        return None

    def _is_undecided(self) -> bool:
        """Return True if a pending reward may yet show that this is no local optimum."""
        here = () if self.here is None else (self.here,)
        return any(math.isnan(self.rewards.get(key, 0.0)) for key in (*here, *self.around))


@final
class LocalSearchController:
    """Climbs from a random architecture to a local optimum, and again from another one.

    A batch that is larger than the neighbours left is filled with random architectures, which are
    remembered, so that no climb asks for them again. A failed trial is worse than any other.
    """

    def __init__(self, space: Choices, seeds: Sequence[int]) -> None:
        self._space = space
        self._positions = len(space.num_choices)
        listed = listing(space)
        self._climbs = [
            _Climb(space, listed, generator) for generator in ReplicaGenerators(seeds).each
        ]

    def sample(self, batch_size: int) -> Int64[ndarray, "R B D"]:
        """Propose architectures, a batch for each replica."""
        keys = [climb.propose() for climb in self._climbs for _ in range(batch_size)]
        rows = rows_of(keys, self._positions)
        return rows.reshape(len(self._climbs), batch_size, self._positions)

    def learn(self, trials: ScoredTrials, score: Score) -> None:  # noqa: ARG002 - rewards suffice
        """Learn from the rewards of architectures, own or given."""
        architectures = self._space.normal(trials.architectures)
        keys = iter(keys_of(architectures.reshape(-1, self._positions)))
        rewards = np.where(trials.failed, _FAILED, trials.rewards).tolist()
        for climb, batch in zip(self._climbs, rewards, strict=True):
            for reward in batch:
                climb.learn(next(keys), reward)

    def mode(self) -> Int64[ndarray, "R D"] | None:
        """The best seen by each replica; None while a replica has no evaluated trial."""
        best = [climb.best for climb in self._climbs if climb.best is not None]
        return rows_of(best, self._positions) if len(best) == len(self._climbs) else None

    def diagnostics(self) -> dict[str, Float64[ndarray, "R"]]:
        """Number of architectures that each replica has asked for, and of its restarts."""
        return {
            "queries": np.array([len(climb.rewards) for climb in self._climbs], float),
            "restarts": np.array([climb.restarts for climb in self._climbs], float),
        }


@final
@dataclass
class LocalSearchConfig(ControllerConfig):
    """Settings of local search: none but the batch."""

    def build(self, space: Choices, seeds: Sequence[int]) -> LocalSearchController:
        """Make the controller, with one replica for each seed."""
        return LocalSearchController(space, seeds)
