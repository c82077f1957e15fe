"""How the choice of operations moved: what each edge was drawn by, in bins of samples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from controller.base import Controller, StochasticPolicy
from controller.state import require_shapes
from nas.spaces.nas_bench_201.space import EDGES, OPERATIONS
from nas.trials.loop import Step
from nas.trials.trajectory import bin_edges


@final
class OperationHistory:
    """Means of the first replica's probabilities, or shares of its samples where it has no policy.

    A consumer of the loop. Part of the checkpoint, because a run that goes on learns again only
    what came after it.
    """

    def __init__(self, controller: Controller, budget: int) -> None:
        self._policy = controller if isinstance(controller, StochasticPolicy) else None
        self.edges = bin_edges(budget)
        bins = len(self.edges) - 1
        self._sums = np.zeros((bins, len(EDGES), len(OPERATIONS)))
        self._samples = np.zeros(bins)

    @property
    def has_policy(self) -> bool:
        """Whether these are probabilities rather than shares."""
        return self._policy is not None

    def __call__(self, step: Step) -> None:
        """Take in a batch."""
        self.record(step.first, step.architectures)

    def record(self, first: int, architectures: Int64[ndarray, "R B 6"]) -> None:
        """Take in the batch that was sampled last; all of it counts where its first sample does."""
        here = int(np.searchsorted(self.edges, first, side="right")) - 1
        batch_size = architectures.shape[1]
        drawn_by = None if self._policy is None else self._policy.probabilities()
        if drawn_by is None:
            taken = architectures[0][:, :, None] == np.arange(len(OPERATIONS))
            self._sums[here] += taken.sum(0)
        else:
            self._sums[here] += batch_size * drawn_by[0]
        self._samples[here] += batch_size

    def means(self) -> Float64[ndarray, "bins 6 5"]:
        """Probability or share of each operation on each edge by bin; NaN where no batch began."""
        with np.errstate(invalid="ignore"):
            return self._sums / self._samples[:, None, None]

    def state(self) -> dict[str, ndarray]:
        """Everything it holds."""
        return {"sums": self._sums.copy(), "samples": self._samples.copy()}

    def restore(self, state: Mapping[str, ndarray]) -> None:
        """Go on where `state` was taken.

        Raises:
          ValueError: if the state is of another budget.
        """
        require_shapes(state, {name: array.shape for name, array in self.state().items()})
        self._sums[:] = state["sums"]
        self._samples[:] = state["samples"]
