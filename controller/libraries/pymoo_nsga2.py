"""One NSGA-II search (Deb et al., IEEE TEVC 2002) through pymoo's ask and tell, with operators for choices without an order.

The algorithm is never stored: its population is put into a new one, with its ranks and crowding
distances, which are those of the generation before and cannot be computed again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray
from pymoo.algorithms.moo.nsga2 import NSGA2
from pymoo.core.population import Population
from pymoo.core.problem import Problem
from pymoo.core.termination import NoTermination
from pymoo.core.variable import Choice
from pymoo.operators.crossover.ux import UniformCrossover
from pymoo.operators.mutation.rm import ChoiceRandomMutation
from pymoo.operators.sampling.rnd import IntegerRandomSampling

from controller.base import Choices, Score
from controller.replicated import ReplicaTrials

_FAILED_EXCESS = 1e9  # sum of the excess over the limits of a failed trial: worse than any other


@final
class PymooNsga2:
    """Maximises the accuracy and minimises each ratio.

    A generation ends after as many trials as the population has members. A batch that is larger
    than the rest of a generation is filled with more children of the same parents. A failed trial
    is infeasible, whether the limits are constraints or not.
    """

    def __init__(
        self,
        space: Choices,
        generator: np.random.Generator,
        *,
        size: int,
        constrained: bool,
    ) -> None:
        self._space = space
        self._num_choices = np.array(space.num_choices)
        self._generator = generator
        self._size = size
        self._constrained = constrained
        self._begin()

    def _begin(self) -> None:
        problem = Problem(
            vars={str(d): Choice(options=np.arange(k)) for d, k in enumerate(self._num_choices)},
            xl=np.zeros_like(self._num_choices),
            xu=self._num_choices - 1,
            n_ieq_constr=1,
        )
        self._algorithm = NSGA2(
            pop_size=self._size,
            sampling=IntegerRandomSampling(),
            crossover=UniformCrossover(),
            mutation=ChoiceRandomMutation(),
        )
        self._algorithm.setup(problem, termination=NoTermination())
        self._algorithm.random_state = self._generator
        self._children = np.empty((0, len(self._num_choices)), np.int64)
        self._evaluated = Population.new(X=self._children)

    @property
    def shapes(self) -> Mapping[str, tuple[int | None, ...]]:
        """Names and shapes of the arrays of the state."""
        positions = len(self._num_choices)
        shapes: dict[str, tuple[int | None, ...]] = {"ahead": (None, positions)}
        for name in ("living", "told"):
            shapes[name] = (None, positions)
            shapes[f"{name}_objectives"] = (None, None)
            shapes[f"{name}_excess"] = (None,)
        return {**shapes, "living_rank": (None,), "living_crowding": (None,)}

    def propose(self, count: int) -> Int64[ndarray, "B D"]:
        """The next of this generation."""
        while len(self._children) < count:
            self._children = np.concatenate([self._children, self._bred()])
        proposed, self._children = np.split(self._children, [count])
        return proposed

    def _bred(self) -> Int64[ndarray, "size D"]:
        """Draw a population of distinct valid architectures, one for each member."""
        children = self._algorithm.ask()
        new = np.empty((0, len(self._num_choices)), np.int64)
        if children is not None:
            new = children.get("X").astype(np.int64)
        # pymoo gives fewer where it finds none that are new, and would stop where it finds none
        self._algorithm.termination.force_termination = False
        missing = (self._size - len(new), len(self._num_choices))
        bred = np.concatenate([new, self._generator.integers(self._num_choices, size=missing)])
        wrong = ~self._space.valid(bred)
        bred[wrong] = self._space.sample(self._generator, int(wrong.sum()))
        return self._space.normal(bred)

    def learn(self, trials: ReplicaTrials, score: Score) -> None:  # noqa: ARG002 - it learns from accuracy and costs
        """Select the survivors once the trials of a generation are complete."""
        architectures, accuracy, ratios, failed = trials
        objectives = np.concatenate([-accuracy[:, None], ratios], axis=1)
        objectives[failed] = 0  # never compared, because they are infeasible
        excess = np.maximum(ratios - 1, 0).sum(-1) * self._constrained
        excess[failed] = _FAILED_EXCESS
        self._evaluated = Population.merge(
            self._evaluated, _individuals(architectures, objectives, excess)
        )
        if len(self._evaluated) >= self._size:
            self._algorithm.tell(infills=self._evaluated)
            self._evaluated = self._evaluated[:0]
            self._children = self._children[:0]

    def state(self) -> dict[str, ndarray]:
        """The population, the trials of this generation, and its children not yet proposed."""
        living = self._algorithm.pop if self._algorithm.is_initialized else self._evaluated[:0]
        return {
            "ahead": self._children.copy(),
            **self._arrays("living", living),
            "living_rank": np.array([individual.get("rank") for individual in living], float),
            "living_crowding": np.array(
                [individual.get("crowding") for individual in living], float
            ),
            **self._arrays("told", self._evaluated),
        }

    def restore(self, state: Mapping[str, ndarray]) -> None:
        """A new algorithm with the same population."""
        self._begin()
        self._children = state["ahead"].copy()
        self._evaluated = _individuals_of("told", state)
        if len(state["living"]):
            living = _individuals_of("living", state)
            living.set("rank", state["living_rank"])
            living.set("crowding", state["living_crowding"])
            self._algorithm.pop = living
            self._algorithm.is_initialized = True
            self._algorithm.n_iter = 1  # a number of generations that nothing here reads

    def _arrays(self, name: str, individuals: Population) -> dict[str, ndarray]:
        count, positions = len(individuals), len(self._num_choices)
        objectives = np.array([individual.F for individual in individuals], float)
        return {
            name: np.array([individual.X for individual in individuals], np.int64).reshape(
                count, positions
            ),
            f"{name}_objectives": objectives.reshape(count, -1 if count else 0),
            f"{name}_excess": np.array([individual.G[0] for individual in individuals], float),
        }


def _individuals_of(name: str, state: Mapping[str, ndarray]) -> Population:
    return _individuals(state[name], state[f"{name}_objectives"], state[f"{name}_excess"])


def _individuals(
    architectures: Int64[ndarray, "n D"],
    objectives: Float64[ndarray, "n O"],
    excess: Float64[ndarray, "n"],
) -> Population:
    """Evaluated individuals of pymoo."""
    return Population.new(X=architectures, F=objectives, G=excess[:, None])
