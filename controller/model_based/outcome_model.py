"""A model of what evaluated architectures have told: accuracy, and each cost, of all others.

Each outcome is predicted by itself and no reward is, so that an answer serves any limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import final

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from controller.base import Choices
from controller.model_based.gaussian_process import GaussianProcess, Prediction
from controller.model_based.outcome_scale import AccuracyScale
from controller.model_based.similarity import Similarity, Weights, joined, taken

_ACCURACY = Weights(choices=0.35, smooth=0.9, linear=0.15, noise=0.03)
_COST = Weights(choices=0.05, smooth=0.15, linear=3.0, noise=0.01)
_WIDEST = 8.0  # costs are clipped to this many limits, and to 1 / 8 of a limit


@final
@dataclass(frozen=True)
class Outcomes:
    """Predicted accuracy, as a score of its rank, and logarithm of each cost's share of its limit."""

    accuracy: Prediction
    log_costs: tuple[Prediction, ...]

    def expect(self, position: int) -> None:
        """Take the architecture at this position as pending."""
        for prediction in (self.accuracy, *self.log_costs):
            prediction.expect(position)


@final
class OutcomeModel:
    """Predicts the outcomes of any architecture of a space.

    Call `fit` before `predict`. A failed architecture is taken for as inaccurate as the worst known.
    """

    def __init__(self, space: Choices) -> None:
        self._similarity = Similarity(space)

    def fit(
        self,
        architectures: Int64[ndarray, "n D"],
        accuracy: Float64[ndarray, "n"],
        ratios: Float64[ndarray, "n M"],
        failed: Bool[ndarray, "n"],
        pending: Int64[ndarray, "p D"],
    ) -> None:
        """Fit what was evaluated, two architectures or more of which did not fail.

        Args:
          architectures: evaluated; one that was evaluated twice is there twice.
          accuracy: in any unit, larger is better; ignored where failed.
          ratios: each cost as a share of its limit; ignored where failed.
          failed: True where there is no outcome.
          pending: architectures whose outcomes are on their way.
        """
        self.scale = AccuracyScale.of(accuracy[~failed])
        scores = self.scale(np.where(failed, accuracy[~failed].min(), accuracy))
        logs = np.log(np.clip(ratios[~failed], 1 / _WIDEST, _WIDEST))
        known, waiting = self._similarity.places(architectures), self._similarity.places(pending)
        fit = partial(GaussianProcess.fit, self._similarity)
        self._accuracy = fit(_ACCURACY, joined(known, waiting), scores)
        seen = joined(taken(known, ~failed), waiting)
        self._costs = [fit(_COST, seen, log) for log in logs.T]

    def predict(self, architectures: Int64[ndarray, "n D"]) -> Outcomes:
        """Outcomes of any architectures."""
        places = self._similarity.places(architectures)
        return Outcomes(
            self._accuracy.predict(places), tuple(cost.predict(places) for cost in self._costs)
        )
