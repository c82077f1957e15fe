"""Slowdown of architectures in a scenario, learned from a few that were timed in it as well.

The model is a ridge regression of the logarithm of the ratio of both latencies, on the logarithm of
the latency alone and on the architecture's features: a network that waits for memory suffers from a
memory hog, one that launches many kernels from a busy processor. The latency alone is known, so a few
dozen architectures are enough where a regression of the latency itself needs hundreds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from latency.models.confidence import ResidualUncertainty, of_residuals
from latency.models.regression import Quality, judge

FEWEST_BOTH_WAYS = 20
"""Architectures timed alone and in the scenario; with fewer, the held-out quality is uncertain."""

_FOLDS = 5
_SEED = 201
_RIDGES = (0.1, 1.0, 10.0, 100.0, 1e3, 1e4, 1e6)
"""Candidates, chosen by the error on held-out architectures; the last leaves one factor for all."""


@final
@dataclass(frozen=True)
class Pairs:
    """Architectures that were timed alone and in the scenario."""

    solo_ms: Float64[ndarray, " n"]
    scenario_ms: Float64[ndarray, " n"]
    features: Float64[ndarray, "n features"]
    groups: Int64[ndarray, " n"]  # architectures of one group are held out together

    def __getitem__(self, chosen: Bool[ndarray, " n"]) -> Pairs:
        return Pairs(
            self.solo_ms[chosen],
            self.scenario_ms[chosen],
            self.features[chosen],
            self.groups[chosen],
        )

    def folds(self) -> list[Bool[ndarray, " n"]]:
        """Masks of architectures to hold out, whole groups together; empty masks are left out."""
        names, group = np.unique(self.groups, return_inverse=True)
        fold = np.random.default_rng(_SEED).permutation(len(names))[group] % _FOLDS
        masks = [fold == number for number in range(_FOLDS)]
        return [mask for mask in masks if mask.any() and not mask.all()]


@final
@dataclass(frozen=True)
class Slowdown:
    """One device in one scenario relative to the same device alone."""

    weights: Float64[ndarray, " inputs"]  # of the standardised inputs
    centre: Float64[ndarray, " inputs"]
    scale: Float64[ndarray, " inputs"]
    mean: float  # of the logarithm of the ratio
    least: float  # smallest and largest ratio of the fit, which no prediction exceeds
    most: float

    def predict_ms(
        self, solo_ms: Float64[ndarray, " n"], features: Float64[ndarray, "n features"]
    ) -> Float64[ndarray, " n"]:
        """Milliseconds in the scenario of architectures that take `solo_ms` alone."""
        standard = (_inputs(solo_ms, features) - self.centre) / self.scale
        ratio = np.exp(standard @ self.weights + self.mean)
        return np.asarray(solo_ms * np.clip(ratio, self.least, self.most))


@final
@dataclass(frozen=True)
class SlowdownQuality:
    """Held-out quality of a slowdown model, and how much the scenario changes."""

    by_ridge: Quality  # of latencies in the scenario, each predicted from other architectures
    by_one_factor: Quality  # the same by one factor for all: the baseline
    kendall_tau: float  # of the latency alone and in the scenario: 1 if the order is the same
    median_ratio: float
    uncertainty: ResidualUncertainty  # of the better of the two, which predicts

    @property
    def ridge_is_better(self) -> bool:
        """Whether the fit has a smaller median error on held-out architectures than one factor."""
        return self.by_ridge.median_error < self.by_one_factor.median_error

    @property
    def chosen(self) -> Quality:
        """Quality of the better of the two, which predicts."""
        return self.by_ridge if self.ridge_is_better else self.by_one_factor

    def __str__(self) -> str:
        ridge, factor = (
            f"{quality.median_error:.1%}" for quality in (self.by_ridge, self.by_one_factor)
        )
        how = (
            f"by ridge regression, which errs by {ridge} (median) on held-out architectures, one factor "
            f"for all by {factor}"
            if self.ridge_is_better
            else f"by one factor for all, which errs by {factor} (median) on held-out architectures, ridge "
            f"regression by {ridge}"
        )
        return (
            f"{self.median_ratio:.2f} times the latency alone in the median, Kendall tau to it "
            f"{self.kendall_tau:.3f}; {how}; {self.chosen}"
        )


def fit(pairs: Pairs) -> Slowdown:
    """Learn the ratio, with the ridge that predicts held-out architectures best."""
    predicted_ms = np.empty((len(_RIDGES), len(pairs.scenario_ms)))
    for held_out in pairs.folds():
        others = pairs[held_out]
        for row, model in zip(predicted_ms, _fits(pairs[~held_out], _RIDGES), strict=True):
            row[held_out] = model.predict_ms(others.solo_ms, others.features)
    errors = np.abs(np.log(predicted_ms / pairs.scenario_ms)).mean(axis=1)
    (best,) = _fits(pairs, [_RIDGES[int(np.argmin(errors))]])
    return best


def quality(pairs: Pairs) -> SlowdownQuality:
    """Cross-validated quality of `fit`; the ridge is chosen without the held-out architectures."""
    predicted_ms, constant_ms = np.empty_like(pairs.scenario_ms), np.empty_like(pairs.scenario_ms)
    for held_out in pairs.folds():
        training, others = pairs[~held_out], pairs[held_out]
        predicted_ms[held_out] = fit(training).predict_ms(others.solo_ms, others.features)
        constant_ms[held_out] = others.solo_ms * float(
            np.median(training.scenario_ms / training.solo_ms)
        )
    by_ridge, by_one_factor = (judge(ms, pairs.scenario_ms) for ms in (predicted_ms, constant_ms))
    ridge_is_better = by_ridge.median_error < by_one_factor.median_error
    best_ms = predicted_ms if ridge_is_better else constant_ms
    return SlowdownQuality(
        by_ridge,
        by_one_factor,
        kendall_tau(pairs.solo_ms, pairs.scenario_ms),
        float(np.median(pairs.scenario_ms / pairs.solo_ms)),
        of_residuals(np.log(pairs.scenario_ms / best_ms)),
    )


def kendall_tau(first: Float64[ndarray, " n"], second: Float64[ndarray, " n"]) -> float:
    """Kendall's tau-b of two orders; NaN if one of them is constant."""
    from scipy.stats import kendalltau  # noqa: PLC0415 - half a second that a look-up does not need

    return float(kendalltau(first, second).statistic)


def _fits(pairs: Pairs, ridges: Sequence[float]) -> list[Slowdown]:
    inputs, ratio = _inputs(pairs.solo_ms, pairs.features), pairs.scenario_ms / pairs.solo_ms
    centre, spread = inputs.mean(axis=0), inputs.std(axis=0)
    scale = np.where(spread > 0, spread, 1.0)
    standard, mean = (inputs - centre) / scale, float(np.log(ratio).mean())
    gram, moment = standard.T @ standard, standard.T @ (np.log(ratio) - mean)
    least, most = float(ratio.min()), float(ratio.max())
    return [
        Slowdown(
            np.linalg.solve(gram + ridge * np.eye(len(gram)), moment),
            centre,
            scale,
            mean,
            least,
            most,
        )
        for ridge in ridges
    ]


def _inputs(
    solo_ms: Float64[ndarray, " n"], features: Float64[ndarray, "n features"]
) -> Float64[ndarray, "n inputs"]:
    return np.concatenate([np.log(solo_ms)[:, None], features], axis=1)
