"""One random generator a replica, whose stream depends on its seed alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float64
    from numpy import ndarray


@final
class ReplicaGenerators:
    """R generators that draw side by side."""

    def __init__(self, seeds: Sequence[int]) -> None:
        self.each = [np.random.default_rng(seed) for seed in seeds]

    def uniform(self, *shape: int) -> Float64[ndarray, "R *shape"]:
        """Numbers in [0, 1), from each replica's own stream."""
        return np.stack([generator.random(shape) for generator in self.each])

    def state(self) -> ndarray:
        """Where each stream stands, a JSON text a replica."""
        return np.array([json.dumps(generator.bit_generator.state) for generator in self.each])

    def restore(self, state: ndarray) -> None:
        """Go on where `state` was taken."""
        for generator, text in zip(self.each, state, strict=True):
            generator.bit_generator.state = json.loads(str(text))
