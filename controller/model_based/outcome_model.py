"""Predictions of accuracy and of each cost, from the evaluated architectures.

Each outcome has a Gaussian process of its own. Rewards are not predicted, so predictions hold for any limit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from controller.base import Choices
from controller.model_based.gaussian_process import (
    GaussianProcess,
    KernelWeights,
    Points,
    Prediction,
    Similarity,
    points_at,
)

_ACCURACY = KernelWeights(choices=0.35, smooth=0.9, linear=0.15, noise=0.1)
_COST = KernelWeights(choices=0.05, smooth=0.15, linear=3.0, noise=0.01)
_SLOPE, _SLOPE_TRIALS = 1.0, 5.0
"""Prior slope of the score by what other tasks let expect, and of how many trials it has the weight."""

_FEASIBLE = 0.9
"""Least share of the trials within all limits, below which other tasks are not used."""

_WIDEST = 8.0  # costs are clipped to this many limits, or medians, and to 1 / 8 of one


def limits_bind(ratios: Float64[ndarray, "k M"]) -> bool:
    """Whether costs decide on these trials, more than accuracies; then other tasks lead beyond the limits."""
    return bool((ratios <= 1).all(axis=1).mean() < _FEASIBLE)


@final
@dataclass(frozen=True)
class AccuracyScale:
    """Scale on which accuracy is predicted: the score -log(share of architectures that are more accurate).

    It does not depend on the unit: the few best architectures are far apart, and the many bad ones are close.
    """

    values: Float64[ndarray, "n"]  # ascending, each once
    scores: Float64[ndarray, "n"]

    @classmethod
    def from_values(cls, accuracy: Float64[ndarray, "n"]) -> AccuracyScale:
        """Make the scale that these accuracies determine."""
        values, counts = np.unique(accuracy, return_counts=True)
        better = 1 - (counts.cumsum() - 0.5 * counts) / len(accuracy)
        return cls(values, -np.log(better))

    def __call__(self, accuracy: Float64[ndarray, "*n"]) -> Float64[ndarray, "*n"]:
        """Interpolated scores; beyond the best accuracy, extrapolated with the mean slope of the upper half."""
        top, middle = self.values[-1], self.values[len(self.values) // 2]
        run = self.scores[-1] - self.scores[len(self.values) // 2]
        slope = run / (top - middle) if top > middle else 1.0
        within = np.interp(accuracy, self.values, self.scores)
        return np.asarray(within + slope * np.maximum(accuracy - top, 0))


@final
@dataclass(frozen=True)
class Outcomes:
    """Predicted accuracy, as a score of its rank, and logarithm of each cost's share of its limit."""

    accuracy: Prediction
    log_costs: tuple[Prediction, ...]

    _points: Points
    _similarity: Similarity

    def expect(self, position: int) -> None:
        """Condition on the evaluation of the architecture at this position, whose outcome is pending."""
        here = points_at(self._points, np.array([position]))
        near = self._similarity(here, self._points)
        for prediction in (self.accuracy, *self.log_costs):
            prediction.expect(position, near)


@final
class OutcomeModel:
    """Predicts the outcomes of any architecture of a space.

    Call `fit` before `predict`. A failed architecture counts as accurate as the worst known one.
    """

    def __init__(self, space: Choices, *, around_limit: bool) -> None:
        """Make a model; `around_limit` clips costs around their limits instead of around their medians."""
        self._similarity = Similarity(space)
        self._around_limit = around_limit
        self._expected: Callable[[ndarray], ndarray] | None = getattr(space, "expected", None)

    def fit(
        self,
        architectures: Int64[ndarray, "m D"],
        accuracy: Float64[ndarray, "m"],
        ratios: Float64[ndarray, "m M"],
        failed: Bool[ndarray, "m"],
    ) -> None:
        """Fit evaluated architectures, at least two of which did not fail.

        Args:
          architectures: evaluated or pending; an architecture may occur several times.
          accuracy: in any unit, larger is better; NaN where pending, ignored where failed.
          ratios: each cost as a share of its limit; ignored where pending or failed.
          failed: True where the evaluation failed.
        """
        ended = ~np.isnan(accuracy)
        done = ended & ~failed
        self.scale = AccuracyScale.from_values(accuracy[done])
        scores = self.scale(np.where(failed, accuracy[done].min(), accuracy)[ended])
        self._succeeded = ~failed[ended]
        logs = np.log(ratios[done])
        middle = 0.0 if self._around_limit else np.median(logs, axis=0)
        self.log_costs = np.clip(logs, middle - np.log(_WIDEST), middle + np.log(_WIDEST))
        self._seen = self._similarity.points(architectures)
        among = self._similarity(self._seen, self._seen)
        self._slope = 0.0
        self._taught = np.zeros(len(scores))
        is_bound = self._around_limit and limits_bind(ratios[done])
        if self._expected is not None and not is_bound:
            self._taught = self._fit_taught(self._expected(architectures[ended]), scores)
        self._accuracy = GaussianProcess.fit(_ACCURACY, among, scores - self._taught, ended)
        self._costs = [GaussianProcess.fit(_COST, among, log, done) for log in self.log_costs.T]

    def _fit_taught(
        self, expected: Float64[ndarray, "k"], scores: Float64[ndarray, "k"]
    ) -> Float64[ndarray, "k"]:
        """The part of the scores that is linear in what other tasks let expect.

        The slope is the least-squares one, shrunk towards its prior.
        """
        self._centre = float(expected.mean())
        inputs = expected - self._centre
        joint = inputs @ (scores - scores.mean()) + _SLOPE_TRIALS * _SLOPE
        self._slope = float(joint / (inputs @ inputs + _SLOPE_TRIALS))
        return np.asarray(self._slope * inputs)

    @property
    def smoothed(self) -> Float64[ndarray, "k"]:
        """Smoothed scores of the architectures that did not fail."""
        return np.asarray((self._accuracy.smoothed + self._taught)[self._succeeded])

    def predict(self, architectures: Int64[ndarray, "n D"]) -> Outcomes:
        """Outcomes of any architectures."""
        points = self._similarity.points(architectures)
        near = self._similarity(self._seen, points)
        alone = self._similarity.diagonal(points)
        accuracy, *costs = (
            process.predict(near, process.weights.covariance(alone))
            for process in (self._accuracy, *self._costs)
        )
        if self._expected is not None and self._slope:
            expected = self._expected(architectures) - self._centre
            accuracy.mean = accuracy.mean + self._slope * expected
        return Outcomes(accuracy, tuple(costs), points, self._similarity)
