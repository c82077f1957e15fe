"""One NSGA-II search (Deb et al., IEEE TEVC 2002) through pymoo's ask and tell, with operators for choices without an order.

The algorithm is never stored: its population is put into a new one, with its ranks and crowding
distances, which are those of the generation before and cannot be computed again.
"""

from __future__ import annotations

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
from controller.replicated import OneSearch, ReplicaTrials


@final
class PymooNsga2(OneSearch):
    """Maximises the accuracy and minimises each ratio.

    A generation ends after as many trials as the population has members. A batch that is larger
    than the rest of a generation is filled with more children of the same parents. A failed trial
    is infeasible, a slow one is not.
    """

    def __init__(
        self,
        space: Choices,
        generator: np.random.Generator,
        *,
        size: int,
    ) -> None:
        self._space = space
        self._num_choices = np.array(space.num_choices)
        self._generator = generator
        self._size = size
        problem = Problem(
            vars={str(d): Choice(options=np.arange(k)) for d, k in enumerate(self._num_choices)},
            xl=np.zeros_like(self._num_choices),
            xu=self._num_choices - 1,
            n_ieq_constr=1,
        )
        self._algorithm = NSGA2(
            pop_size=size,
            sampling=IntegerRandomSampling(),
            crossover=UniformCrossover(),
            mutation=ChoiceRandomMutation(),
        )
        self._algorithm.setup(problem, termination=NoTermination())
        self._algorithm.random_state = self._generator
        self._children = np.empty((0, len(self._num_choices)), np.int64)
        self._evaluated = Population.new(X=self._children)

    def propose(self, count: int) -> Int64[ndarray, "B D"]:
        """The next of this generation."""
        while len(self._children) < count:
            self._children = np.concatenate([self._children, self._breed()])
        proposed, self._children = np.split(self._children, [count])
        return proposed

    def _breed(self) -> Int64[ndarray, "size D"]:
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
        excess = np.where(failed, 1.0, 0.0)
        self._evaluated = Population.merge(
            self._evaluated, _individuals(architectures, objectives, excess)
        )
        if len(self._evaluated) >= self._size:
            self._algorithm.tell(infills=self._evaluated)
            self._evaluated = self._evaluated[:0]
            self._children = self._children[:0]


def _individuals(
    architectures: Int64[ndarray, "n D"],
    objectives: Float64[ndarray, "n O"],
    excess: Float64[ndarray, "n"],
) -> Population:
    """Evaluated individuals of pymoo."""
    return Population.new(X=architectures, F=objectives, G=excess[:, None])
