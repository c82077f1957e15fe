"""History of the choices: the probabilities of each position, in bins of trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import final

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from controller.base import Controller, StochasticPolicy
from controller.state import require_shapes
from nas.trials.trajectory import bin_edges


@final
class ChoiceHistory:
    """Means of the first replica's probabilities, or shares of its trials where it has no policy.

    Part of the checkpoint, because a run that goes on learns again only what came after it.
    """

    def __init__(self, controller: Controller, num_choices: Sequence[int], budget: int) -> None:
        self._policy = controller if isinstance(controller, StochasticPolicy) else None
        self.edges = bin_edges(budget)
        bins = len(self.edges) - 1
        self._options = np.arange(max(num_choices))
        self._sums = np.zeros((bins, len(num_choices), max(num_choices)))
        self._samples = np.zeros(bins)

    @property
    def has_policy(self) -> bool:
        """Whether these are probabilities rather than shares."""
        return self._policy is not None

    def __call__(self, first: int, architectures: Int64[ndarray, "R B D"]) -> None:
        """Take in the batch that was sampled last; all of it counts where its first trial does."""
        here = int(np.searchsorted(self.edges, first, side="right")) - 1
        batch_size = architectures.shape[1]
        drawn_by = None if self._policy is None else self._policy.probabilities()
        if drawn_by is None:
            self._sums[here] += (architectures[0][:, :, None] == self._options).sum(0)
        else:
            self._sums[here] += batch_size * drawn_by[0]
        self._samples[here] += batch_size

    def means(self) -> Float64[ndarray, "bins D K"]:
        """Probability or share of each option of each position; NaN where no batch began."""
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
