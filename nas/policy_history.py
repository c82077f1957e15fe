"""How a policy's probabilities moved: their means over bins of samples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from controller.base import Controller, StochasticPolicy
from controller.state import require_shapes
from nas.search import Step
from nas.search_space import EDGES, OPERATIONS
from nas.trajectory import bin_edges


@final
class PolicyHistory:
    """Keeps what the first replica's choices were drawn by; a consumer of the loop.

    Part of the checkpoint, because a run that goes on learns again only what came after it.
    """

    def __init__(self, controller: Controller, budget: int) -> None:
        self._policy = controller if isinstance(controller, StochasticPolicy) else None
        self._edges = bin_edges(budget)
        bins = len(self._edges) - 1
        self._sums = np.zeros((bins, len(EDGES), len(OPERATIONS)))
        self._samples = np.zeros(bins)

    def __call__(self, step: Step) -> None:
        """Take in the batch that was sampled last."""
        self.record(step.first, step.samples - step.first)

    def record(self, first: int, batch_size: int) -> None:
        """Take in the batch that was sampled last; it counts where its first sample does."""
        if self._policy is None:
            return
        probabilities = self._policy.probabilities()
        if probabilities is None:
            raise ValueError("there is no history before the first sample")
        here = int(np.searchsorted(self._edges, first, side="right")) - 1
        self._sums[here] += batch_size * probabilities[0]
        self._samples[here] += batch_size

    def means(self) -> Float64[ndarray, "bins 6 5"] | None:
        """Probability of each operation on each edge by bin; None without a policy.

        NaN in a bin in which no batch began.
        """
        if self._policy is None:
            return None
        with np.errstate(invalid="ignore"):
            return self._sums / self._samples[:, None, None]

    def state(self) -> dict[str, ndarray]:
        """Everything it holds; nothing without a policy."""
        if self._policy is None:
            return {}
        return {"sums": self._sums.copy(), "samples": self._samples.copy()}

    def restore(self, state: Mapping[str, ndarray]) -> None:
        """Go on where `state` was taken.

        Raises:
          ValueError: if the state is of another policy or budget.
        """
        require_shapes(state, {name: array.shape for name, array in self.state().items()})
        if self._policy is not None:
            self._sums[:] = state["sums"]
            self._samples[:] = state["samples"]
