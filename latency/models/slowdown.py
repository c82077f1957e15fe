"""How much slower architectures are in a situation, from a few that were timed in it as well.

The ratio of the two latencies is what is learned, its logarithm as a ridge regression on the
logarithm of the latency alone and on what the cell consists of: who spends its time in memory
suffers from a memory hog, who launches many kernels from a busy processor. Everything that the
ratio leaves to the latency alone is known exactly for the whole space, which is why a few dozen
cells are enough where a regression of the latency itself needs hundreds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from latency.models.regression import Quality, judge

FEWEST_CELLS = 20
"""Below, a held-out quality is a guess itself."""

_FOLDS = 5
_SEED = 201
_RIDGES = (0.1, 1.0, 10.0, 100.0, 1e3, 1e4, 1e6)
"""Chosen by the error of cells that were held out; the last leaves one factor for all."""


@final
@dataclass(frozen=True)
class Slowdown:
    """One device in one situation against the same device alone."""

    weights: Float64[ndarray, " inputs"]  # of the standardised inputs
    centre: Float64[ndarray, " inputs"]
    scale: Float64[ndarray, " inputs"]
    mean: float  # of the logarithm of the ratio
    least: float  # ratios that were seen; none is predicted beyond them
    most: float

    def predict_ms(
        self, solo_ms: Float64[ndarray, " n"], features: Float64[ndarray, "n features"]
    ) -> Float64[ndarray, " n"]:
        """Milliseconds in the situation, of architectures that take `solo_ms` alone."""
        told = (_inputs(solo_ms, features) - self.centre) / self.scale
        ratio = np.exp(told @ self.weights + self.mean)
        return np.asarray(solo_ms * np.clip(ratio, self.least, self.most))


@final
@dataclass(frozen=True)
class SlowdownQuality:
    """How well the situation is known, and how much there is to know."""

    by_ridge: Quality  # of the latencies in the situation, each cell predicted from others
    by_one_factor: Quality  # the same by one factor for all: what the model has to beat
    kendall_tau: float  # of the latency alone and in the situation: 1 if the order is the same
    median_ratio: float

    @property
    def ridge_is_better(self) -> bool:
        """Whether the fit errs less on held-out cells, in the median, than one factor for all."""
        return self.by_ridge.median_error < self.by_one_factor.median_error

    @property
    def taken(self) -> Quality:
        """Of the better of the two, by which cells are predicted."""
        return self.by_ridge if self.ridge_is_better else self.by_one_factor

    def __str__(self) -> str:
        ridge, factor = (f"{one.median_error:.1%}" for one in (self.by_ridge, self.by_one_factor))
        how = (
            f"by ridge regression, which errs by {ridge} (median) on held-out cells, one factor for "
            f"all by {factor}"
            if self.ridge_is_better
            else f"by one factor for all, which errs by {factor} (median) on held-out cells, ridge "
            f"regression by {ridge}"
        )
        return (
            f"{self.median_ratio:.2f} times the latency alone in the median, Kendall tau to it "
            f"{self.kendall_tau:.3f}; {how}; {self.taken}"
        )


def fit(
    solo_ms: Float64[ndarray, " n"],
    situated_ms: Float64[ndarray, " n"],
    features: Float64[ndarray, "n features"],
    groups: Int64[ndarray, " n"],
) -> Slowdown:
    """Learn the ratio.

    Args:
      solo_ms: latency alone.
      situated_ms: latency of the same architectures in the situation.
      features: what each consists of.
      groups: architectures of one group are held out together.

    Raises:
      ValueError: if there are fewer than `FEWEST_CELLS` architectures.
    """
    if len(solo_ms) < FEWEST_CELLS:
        raise ValueError(
            f"a slowdown is learned from {FEWEST_CELLS} architectures or more, not {len(solo_ms)}"
        )
    return _chosen(solo_ms, situated_ms, features, groups)


def quality(
    solo_ms: Float64[ndarray, " n"],
    situated_ms: Float64[ndarray, " n"],
    features: Float64[ndarray, "n features"],
    groups: Int64[ndarray, " n"],
) -> SlowdownQuality:
    """What `fit` is worth: of cells that were held out, the ridge chosen on the others."""
    predicted_ms, constant_ms = np.empty_like(situated_ms), np.empty_like(situated_ms)
    for held_out in _folds(groups):
        known = ~held_out
        model = _chosen(solo_ms[known], situated_ms[known], features[known], groups[known])
        predicted_ms[held_out] = model.predict_ms(solo_ms[held_out], features[held_out])
        ratio = float(np.median(situated_ms[known] / solo_ms[known]))
        constant_ms[held_out] = solo_ms[held_out] * ratio
    return SlowdownQuality(
        judge(predicted_ms, situated_ms),
        judge(constant_ms, situated_ms),
        kendall_tau(solo_ms, situated_ms),
        float(np.median(situated_ms / solo_ms)),
    )


def kendall_tau(first: Float64[ndarray, " n"], second: Float64[ndarray, " n"]) -> float:
    """Kendall's tau-b of two orders; NaN where one of them is none."""
    from scipy.stats import kendalltau  # noqa: PLC0415 - half a second that a look-up does not need

    return float(kendalltau(first, second).statistic)


def _chosen(
    solo_ms: Float64[ndarray, " n"],
    situated_ms: Float64[ndarray, " n"],
    features: Float64[ndarray, "n features"],
    groups: Int64[ndarray, " n"],
) -> Slowdown:
    """The fit of the ridge that predicts held-out cells best."""
    errors = []
    for ridge in _RIDGES:
        predicted_ms = _held_out_ms(solo_ms, situated_ms, features, groups, ridge)
        errors.append(float(np.abs(np.log(predicted_ms / situated_ms)).mean()))
    return _fit(solo_ms, situated_ms, features, _RIDGES[int(np.argmin(errors))])


def _fit(
    solo_ms: Float64[ndarray, " n"],
    situated_ms: Float64[ndarray, " n"],
    features: Float64[ndarray, "n features"],
    ridge: float,
) -> Slowdown:
    inputs, ratio = _inputs(solo_ms, features), situated_ms / solo_ms
    centre, spread = inputs.mean(axis=0), inputs.std(axis=0)
    scale = np.where(spread > 0, spread, 1.0)
    told, mean = (inputs - centre) / scale, float(np.log(ratio).mean())
    gram = told.T @ told + ridge * np.eye(inputs.shape[1])
    weights = np.linalg.solve(gram, told.T @ (np.log(ratio) - mean))
    return Slowdown(weights, centre, scale, mean, float(ratio.min()), float(ratio.max()))


def _held_out_ms(
    solo_ms: Float64[ndarray, " n"],
    situated_ms: Float64[ndarray, " n"],
    features: Float64[ndarray, "n features"],
    groups: Int64[ndarray, " n"],
    ridge: float,
) -> Float64[ndarray, " n"]:
    predicted_ms = np.empty_like(situated_ms)
    for held_out in _folds(groups):
        model = _fit(solo_ms[~held_out], situated_ms[~held_out], features[~held_out], ridge)
        predicted_ms[held_out] = model.predict_ms(solo_ms[held_out], features[held_out])
    return predicted_ms


def _folds(groups: Int64[ndarray, " n"]) -> list[Bool[ndarray, " n"]]:
    """Masks of cells to hold out, a group never in part; the empty ones are left out."""
    names, group = np.unique(groups, return_inverse=True)
    fold = np.random.default_rng(_SEED).permutation(len(names))[group] % _FOLDS
    masks = [fold == number for number in range(_FOLDS)]
    return [mask for mask in masks if mask.any() and not mask.all()]


def _inputs(
    solo_ms: Float64[ndarray, " n"], features: Float64[ndarray, "n features"]
) -> Float64[ndarray, "n inputs"]:
    return np.concatenate([np.log(solo_ms)[:, None], features], axis=1)
