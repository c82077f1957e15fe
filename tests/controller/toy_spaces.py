"""Search spaces without networks, and evaluated trials, for tests of controllers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nas.spaces.base import ChoiceSpace


class Box(ChoiceSpace):
    """Every combination of options is an architecture; numbered in reverse lexicographic order."""

    name = "box"

    def __init__(self, *num_choices):
        self.num_choices = num_choices
        self.size = math.prod(num_choices)

    def architectures(self, numbers):
        rows = np.unravel_index(self.size - 1 - np.asarray(numbers), self.num_choices)
        return np.stack(rows, axis=-1).astype(np.int64)

    def numbers(self, architectures):
        rows = tuple(np.moveaxis(architectures, -1, 0))
        return self.size - 1 - np.ravel_multi_index(rows, self.num_choices)


class Stages(ChoiceSpace):
    """Some 1e23 architectures that cannot be listed, of eight stages of three layers.

    The first choice of a stage is its depth less one; the layers beyond it are switched off. A
    stage may not be deeper than the one after it is wide: some rows are invalid.
    """

    num_choices = (3, 6, 6, 6) * 8

    def _stages(self, architectures):
        return architectures.reshape(*architectures.shape[:-1], 8, 4)

    def normal(self, architectures):
        stages = self._stages(architectures).copy()
        stages[..., 1:] *= np.arange(3) <= stages[..., :1]
        return stages.reshape(architectures.shape)

    def valid(self, architectures):
        stages = self._stages(architectures)
        return super().valid(architectures) & (stages[..., :-1, 0] <= stages[..., 1:, 1] + 1).all(
            -1
        )


class Diagonal(ChoiceSpace):
    """Ten valid rows among 100,000,000: those of equal choices, which have no neighbours."""

    num_choices = (10,) * 8

    def valid(self, architectures):
        return super().valid(architectures) & (architectures == architectures[..., :1]).all(-1)

    def sample(self, rng, n):
        return np.repeat(rng.integers(10, size=(n, 1)), 8, axis=1)


@dataclass(frozen=True)
class Evaluated:
    """Trials as `Controller.learn` takes them in; those without a reward failed."""

    architectures: np.ndarray
    accuracy: np.ndarray
    ratios: np.ndarray
    rewards: np.ndarray

    @property
    def failed(self):
        return np.isnan(self.rewards)


def learn(controller, architectures, rewards):
    """Learn from rewards alone: they are the accuracy, and there is no cost."""
    no_costs = np.empty((*rewards.shape, 0))
    trials = Evaluated(architectures, rewards, no_costs, rewards)
    controller.learn(trials, lambda accuracy, _: accuracy)
