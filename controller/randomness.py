"""One random generator for each replica, whose stream depends on its seed alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import final

import numpy as np
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
        """Position of each stream, a JSON text for each replica."""
        return np.array([json.dumps(generator.bit_generator.state) for generator in self.each])

    def restore(self, state: ndarray) -> None:
        """Go on where `state` was taken."""
        for generator, text in zip(self.each, state, strict=True):
            generator.bit_generator.state = json.loads(str(text))
