"""Regularised evolution (Real et al., AAAI 2019, algorithm 1): the oldest dies, not the worst."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from controller.base import Choices, ControllerConfig, Score, ScoredTrials
from controller.replicated import ReplicaGenerators
from controller.rows import all_valid
from controller.uniform import UniformDraws


@final
class EvolutionController:
    """A population of the last P architectures; the best of a random few has the next child.

    A batch is bred from the population at the time of the request, as by the paper's asynchronous
    workers. A failed trial enters the population with the reward -inf.
    """

    def __init__(self, config: EvolutionConfig, space: Choices, seeds: Sequence[int]) -> None:
        self._config = config
        self._space = space
        self._all_valid = all_valid(space)
        self._num_choices = np.array(space.num_choices)
        self._mutable = np.flatnonzero(self._num_choices > 1)
        self._generators = ReplicaGenerators(seeds)
        self._draw = UniformDraws(space, self._generators)
        shape = len(seeds), config.population_size
        self._population = np.zeros((*shape, len(space.num_choices)), np.int64)
        self._rewards = np.full(shape, -np.inf)
        self._entered = 0  # architectures that have ever been in the population

    def sample(self, batch_size: int) -> Int64[ndarray, "R B D"]:
        """Random architectures until the population is full, then children of it."""
        if self._entered < self._config.population_size:
            return self._draw(batch_size)
        u = self._generators.uniform(batch_size, self._config.sample_size + 2)
        parents = self._parents(u[..., 2:])
        children = self._mutate(parents, u[..., 0], u[..., 1])
        return children if self._all_valid else self._repair(children, parents)

    def _parents(self, u: Float64[ndarray, "R B S"]) -> Int64[ndarray, "R B D"]:
        """The best of each sample, which is drawn with replacement."""
        candidates = (u * self._config.population_size).astype(np.int64)
        replica = np.arange(len(u))[:, None]
        best = self._rewards[replica[..., None], candidates].argmax(-1)
        chosen = np.take_along_axis(candidates, best[..., None], axis=-1)[..., 0]
        parents: Int64[ndarray, "R B D"] = self._population[replica, chosen]
        return parents

    def _mutate(
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
        children: Int64[ndarray, "R B D"] = parents.copy()
        np.put_along_axis(children, position[..., None], ((now + shift) % options)[..., None], -1)
        return children

    def _repair(
        self, children: Int64[ndarray, "R B D"], parents: Int64[ndarray, "R B D"]
    ) -> Int64[ndarray, "R B D"]:
        """Replace a child that is invalid, or its parent again, by a neighbour of the parent."""
        wrong = ~self._space.valid(children)
        children = self._space.normal(children)
        wrong |= (children == parents).all(-1)
        for replica, b in np.argwhere(wrong):
            generator = self._generators.each[replica]
            near = self._space.neighbours(parents[replica, b])
            if not len(near):
                near = self._space.sample(generator, 1)
            children[replica, b] = near[generator.integers(len(near))]
        return children

    def learn(self, trials: ScoredTrials, score: Score) -> None:  # noqa: ARG002 - rewards suffice
        """The newest enter the population, the oldest leave it."""
        architectures = self._space.normal(trials.architectures)
        size = self._config.population_size
        count = architectures.shape[1]
        slots = np.arange(self._entered, self._entered + count)[-size:] % size
        self._population[:, slots] = architectures[:, -size:]
        rewards, failed = trials.rewards, trials.failed
        if failed.any():
            rewards = np.where(failed, -np.inf, rewards)
        self._rewards[:, slots] = rewards[:, -size:]
        self._entered += count

    def mode(self) -> Int64[ndarray, "R D"] | None:
        """The best of the population; None while a replica has none that was evaluated."""
        if np.isneginf(self._rewards.max(-1)).any():
            return None
        best: Int64[ndarray, "R D"] = self._population[
            np.arange(len(self._rewards)), self._rewards.argmax(-1)
        ]
        return best

    def diagnostics(self) -> dict[str, Float64[ndarray, "R"]]:
        """The best and the mean reward of the population, without failed trials."""
        living = self._rewards[:, : self._entered]
        best = living.max(-1, initial=-np.inf)
        if np.isneginf(best).any():
            return {}
        mean = living.mean(-1)
        if np.isneginf(mean).any():  # some trials failed
            mean = living.mean(-1, where=np.isfinite(living))
        return {"population_best": best, "population_mean": mean}


@final
@dataclass
class EvolutionConfig(ControllerConfig):
    """Settings of regularised evolution; conf/controller/evolution.yaml holds their defaults."""

    population_size: int  # P

    @property
    def sample_size(self) -> int:
        """S, of which the best is the parent: a fifth of P, as in the paper's small setting."""
        return max(1, self.population_size // 5)

    def build(self, space: Choices, seeds: Sequence[int]) -> EvolutionController:
        """Make the controller, with one replica for each seed.

        Raises:
          ValueError: if a setting lies outside its range.
        """
        self.require_at_least(population_size=1)
        return EvolutionController(self, space, seeds)
