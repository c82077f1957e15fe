"""Regularised evolution (Real et al., AAAI 2019, algorithm 1): the oldest dies, not the worst."""

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
class EvolutionController:
    """A population of the last P architectures; the best of a random few has the next child.

    A batch is bred from the population as it was when the batch was asked for, as by the
    paper's asynchronous workers.
    """

    def __init__(
        self, config: EvolutionConfig, num_choices: Sequence[int], seeds: Sequence[int]
    ) -> None:
        self._config = config
        self._num_choices = np.array(num_choices)
        self._mutable = np.flatnonzero(self._num_choices > 1)
        self._generators = ReplicaGenerators(seeds)
        self._population = np.zeros((len(seeds), config.population_size, len(num_choices)), int)
        self._rewards = np.full((len(seeds), config.population_size), -np.inf)
        self._told = 0  # architectures that have ever been in the population

    def sample(self, batch_size: int) -> Int64[ndarray, "R B D"]:
        """Random architectures until the population is full, then children of it."""
        if self._told < self._config.population_size:
            u = self._generators.uniform(batch_size, len(self._num_choices))
            choices: Int64[ndarray, "R B D"] = (u * self._num_choices).astype(np.int64)
            return choices
        u = self._generators.uniform(batch_size, self._config.sample_size + 2)
        return self._mutated(self._parents(u[..., 2:]), u[..., 0], u[..., 1])

    def _parents(self, u: Float64[ndarray, "R B S"]) -> Int64[ndarray, "R B D"]:
        """The best of each sample, which is drawn with replacement."""
        candidates = (u * self._config.population_size).astype(np.int64)
        replica = np.arange(len(u))[:, None]
        best = self._rewards[replica[..., None], candidates].argmax(-1)
        chosen = np.take_along_axis(candidates, best[..., None], axis=-1)[..., 0]
        parents: Int64[ndarray, "R B D"] = self._population[replica, chosen]
        return parents

    def _mutated(
        self,
        parents: Int64[ndarray, "R B D"],
        u_position: Float64[ndarray, "R B"],
        u_choice: Float64[ndarray, "R B"],
    ) -> Int64[ndarray, "R B D"]:
        """The parents with another option at one position."""
        position = self._mutable[(u_position * len(self._mutable)).astype(np.int64)]
        options = self._num_choices[position]
        shift = 1 + (u_choice * (options - 1)).astype(np.int64)
        now = np.take_along_axis(parents, position[..., None], axis=-1)[..., 0]
        np.put_along_axis(parents, position[..., None], ((now + shift) % options)[..., None], -1)
        return parents

    def update(
        self, architectures: Int64[ndarray, "R B D"], rewards: Float64[ndarray, "R B"]
    ) -> None:
        """The newest enter the population, the oldest leave it."""
        size = self._config.population_size
        count = architectures.shape[1]
        slots = np.arange(self._told, self._told + count)[-size:] % size
        self._population[:, slots] = architectures[:, -size:]
        self._rewards[:, slots] = rewards[:, -size:]
        self._told += count

    def mode(self) -> Int64[ndarray, "R D"] | None:
        """The best of the population; None before there is one."""
        if not self._told:
            return None
        best: Int64[ndarray, "R D"] = self._population[
            np.arange(len(self._rewards)), self._rewards.argmax(-1)
        ]
        return best

    def diagnostics(self) -> dict[str, Float64[ndarray, "R"]]:
        """The best and the mean reward of the population."""
        if not self._told:
            return {}
        living = self._rewards[:, : self._told]
        return {"population_best": living.max(-1), "population_mean": living.mean(-1)}

    def state(self) -> dict[str, ndarray]:
        """Everything that decides what comes next, as arrays without objects."""
        return {
            "population": self._population.copy(),
            "rewards": self._rewards.copy(),
            "told": np.array(self._told),
            "generators": self._generators.state(),
        }

    def restore(self, state: Mapping[str, ndarray]) -> None:
        """Go on exactly where `state` was taken.

        Raises:
          ValueError: if the state is of another controller or of other sizes.
        """
        require_shapes(state, {name: array.shape for name, array in self.state().items()})
        self._population = state["population"].copy()
        self._rewards = state["rewards"].copy()
        self._told = int(state["told"])
        self._generators.restore(state["generators"])


@final
@dataclass
class EvolutionConfig(ControllerConfig):
    """Settings of regularised evolution; conf/controller/evolution.yaml holds their defaults."""

    population_size: int  # P
    sample_size: int  # S, of which the best is the parent

    def build(self, num_choices: Sequence[int], seeds: Sequence[int]) -> EvolutionController:
        """The controller for positions with these numbers of options, a replica a seed.

        Raises:
          ValueError: if a setting lies outside its range.
        """
        if self.population_size < 1:
            raise ValueError(
                f"controller.population_size={self.population_size} must be at least 1"
            )
        if not 1 <= self.sample_size <= self.population_size:
            raise ValueError(
                f"controller.sample_size={self.sample_size} must be between 1 and "
                f"controller.population_size={self.population_size}"
            )
        return EvolutionController(self, num_choices, seeds)
