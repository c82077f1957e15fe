"""Every architecture once, in a random order: search without replacement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from controller.base import ControllerConfig
from controller.choice_space import ChoiceSpace
from controller.randomness import ReplicaGenerators
from controller.state import require_shapes

_MOST = 10_000_000


@final
class ExhaustiveController:
    """Goes through the whole space in an order of each replica's own, and then again."""

    def __init__(self, num_choices: Sequence[int], seeds: Sequence[int]) -> None:
        self._space = ChoiceSpace(tuple(num_choices))
        if self._space.size > _MOST:
            raise ValueError(
                f"controller=exhaustive takes spaces of up to {_MOST:,} architectures, "
                f"but this one has {self._space.size:,}"
            )
        generators = ReplicaGenerators(seeds).each
        self._order = np.stack([g.permutation(self._space.size) for g in generators])
        self._next = 0

    def sample(self, batch_size: int) -> Int64[ndarray, "R B D"]:
        """The next of each order."""
        turn = np.arange(self._next, self._next + batch_size) % self._space.size
        self._next += batch_size
        return self._space.architectures(self._order[:, turn])

    def update(
        self, architectures: Int64[ndarray, "R B D"], rewards: Float64[ndarray, "R B"]
    ) -> None:
        """Nothing to learn."""

    def mode(self) -> None:
        """There is no policy."""

    def diagnostics(self) -> dict[str, Float64[ndarray, "R"]]:
        """Nothing to log."""
        return {}

    def state(self) -> dict[str, ndarray]:
        """The orders, and how far they have been followed."""
        return {"order": self._order.copy(), "next": np.array(self._next)}

    def restore(self, state: Mapping[str, ndarray]) -> None:
        """Go on exactly where `state` was taken.

        Raises:
          ValueError: if the state is of another controller or of other sizes.
        """
        require_shapes(state, {"order": self._order.shape, "next": ()})
        self._order = state["order"].copy()
        self._next = int(state["next"])


@final
@dataclass
class ExhaustiveConfig(ControllerConfig):
    """Settings of the exhaustive search: none but the batch."""

    def build(self, num_choices: Sequence[int], seeds: Sequence[int]) -> ExhaustiveController:
        """The controller for positions with these numbers of options, a replica a seed.

        Raises:
          ValueError: if the space is too large to be gone through.
        """
        return ExhaustiveController(num_choices, seeds)
