"""Every architecture once, in a random order: search without replacement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Int64
from numpy import ndarray

from controller.base import Choices, ControllerConfig, NoPreference, Score, ScoredTrials
from controller.replicated import ReplicaGenerators
from controller.rows import Listing
from edgenas_core.types.architectures import Enumerable

_MOST = 10_000_000


@final
class ExhaustiveController(NoPreference):
    """Goes through the whole space in an order of each replica's own, and then again."""

    def __init__(self, space: Enumerable, seeds: Sequence[int]) -> None:
        self._listing = Listing(space)
        generators = ReplicaGenerators(seeds).each
        self._order = np.stack([g.permutation(space.size) for g in generators])
        self._next = 0

    def sample(self, batch_size: int) -> Int64[ndarray, "R B D"]:
        """The next architectures of each order."""
        turn = np.arange(self._next, self._next + batch_size) % len(self._listing)
        self._next += batch_size
        return self._listing.architectures(self._order[:, turn])

    def learn(self, trials: ScoredTrials, score: Score) -> None:
        """Nothing to learn."""


@final
@dataclass
class ExhaustiveConfig(ControllerConfig):
    """Settings of the exhaustive search: none. The batch changes only the speed."""

    batch_size = 125

    def build(self, space: Choices, seeds: Sequence[int]) -> ExhaustiveController:
        """Make the controller, with one replica for each seed.

        Raises:
          ValueError: if the space cannot be listed or is too large to be gone through.
        """
        if not isinstance(space, Enumerable):
            raise ValueError(  # noqa: TRY004 - the user chose a space that does not suit
                "controller=exhaustive needs a search space that can be listed, and this one "
                "cannot; choose controller=uniform"
            )
        if space.size > _MOST:
            raise ValueError(
                f"controller=exhaustive takes spaces of up to {_MOST:,} architectures, "
                f"but this one has {space.size:,}; choose controller=uniform"
            )
        return ExhaustiveController(space, seeds)
