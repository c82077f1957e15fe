"""Adam (Kingma & Ba, ICLR 2015, algorithm 1) on a flat array of parameters a replica."""

from __future__ import annotations

from typing import final

import numpy as np
from jaxtyping import Float
from numpy import ndarray


@final
class Adam:
    """Moment estimates of one optimisation; parameters are changed in place."""

    decay_1 = 0.9
    decay_2 = 0.999
    epsilon = 1e-8

    def __init__(self, parameters: Float[ndarray, "R P"]) -> None:
        self.steps = 0
        self.first = np.zeros_like(parameters)
        self.second = np.zeros_like(parameters)

    def step(
        self,
        parameters: Float[ndarray, "R P"],
        gradient: Float[ndarray, "R P"],
        learning_rate: float,
    ) -> None:
        """Descend along the gradient, which is overwritten."""
        self.steps += 1
        rate = learning_rate / (1 - self.decay_1**self.steps)
        self.first *= self.decay_1
        self.first += (1 - self.decay_1) * gradient
        np.square(gradient, out=gradient)
        gradient *= 1 - self.decay_2
        self.second *= self.decay_2
        self.second += gradient
        np.divide(self.second, 1 - self.decay_2**self.steps, out=gradient)
        np.sqrt(gradient, out=gradient)
        gradient += self.epsilon
        np.divide(self.first, gradient, out=gradient)
        gradient *= rate
        parameters -= gradient
