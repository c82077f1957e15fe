"""Random search: every architecture is equally likely, always."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from controller.base import ControllerConfig
from controller.randomness import ReplicaGenerators
from controller.state import require_shapes


@final
class UniformController:
    """Draws each choice uniformly and learns nothing: the floor every searcher must beat."""

    def __init__(self, num_choices: Sequence[int], seeds: Sequence[int]) -> None:
        self._num_choices = np.array(num_choices)
        self._generators = ReplicaGenerators(seeds)

    def sample(self, batch_size: int) -> Int64[ndarray, "R B D"]:
        """Propose architectures, a batch for each replica."""
        u = self._generators.uniform(batch_size, len(self._num_choices))
        choices: Int64[ndarray, "R B D"] = (u * self._num_choices).astype(np.int64)
        return choices

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
        """Where the random streams stand."""
        return {"generators": self._generators.state()}

    def restore(self, state: Mapping[str, ndarray]) -> None:
        """Go on exactly where `state` was taken.

        Raises:
          ValueError: if the state is of another controller or of other sizes.
        """
        require_shapes(state, {"generators": (len(self._generators.each),)})
        self._generators.restore(state["generators"])


@final
@dataclass
class UniformConfig(ControllerConfig):
    """Settings of random search: none but the batch."""

    def build(self, num_choices: Sequence[int], seeds: Sequence[int]) -> UniformController:
        """The controller for positions with these numbers of options, a replica a seed."""
        return UniformController(num_choices, seeds)
