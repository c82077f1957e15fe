"""One random generator for each replica, whose stream depends on its seed alone."""

from __future__ import annotations

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
