"""Accuracy of predictions for held-out layers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from benchmarks.predictor.regression import PredictsLayers, operator_of
from latency.models.layers import regression_inputs

Timed = Sequence[tuple[str, float]]
"""Layers and their milliseconds."""

LayerFit = Callable[[Sequence[str], Float64[ndarray, "n"]], PredictsLayers]
"""Makes a predictor of layers and their microseconds."""

FOLDS = 10
PUBLISHED = {
    "cpu": {"r2": 0.952, "within_tolerance": 0.946},
    "gpu": {"r2": 0.962, "within_tolerance": 0.983},
}
"""Means over the kinds of layer that the CPU-GPU co-scheduling source prints, for a tenth of its
layers held out on a Jetson AGX Xavier; the tolerance is not stated."""


@final
@dataclass(frozen=True)
class PredictorAccuracy:
    """Accuracy over some layers; R2 is of milliseconds, so that the slowest layers dominate it."""

    layers: int
    r2: float
    within_10: float
    """Share of layers whose relative error is at most 10 %."""
    within_20: float
    mape: float
    """Mean relative error."""
    median_error: float
    tau: float
    """Kendall's tau of the order of the layers by time."""


def accuracy(predicted: Float64[ndarray, " n"], ms: Float64[ndarray, " n"]) -> PredictorAccuracy:
    """Compute the accuracy from measured and predicted milliseconds."""
    from scipy.stats import kendalltau  # noqa: PLC0415 - slow, and only a judge needs it

    error = np.abs(predicted / ms - 1)
    spread = ((ms - ms.mean()) ** 2).sum()
    return PredictorAccuracy(
        len(ms),
        float(1 - ((predicted - ms) ** 2).sum() / spread) if spread > 0 else math.nan,
        float((error <= 0.1).mean()),
        float((error <= 0.2).mean()),
        float(error.mean()),
        float(np.median(error)),
        float(kendalltau(predicted, ms).statistic) if len(ms) > 1 else math.nan,
    )


def by_group(
    timed: Timed, predicted: Float64[ndarray, " n"], *, least: int = FOLDS
) -> Iterator[tuple[str, PredictorAccuracy]]:
    """Accuracy for each operator with enough predicted layers, and last for `all`."""
    ms = np.array([ms for _, ms in timed])
    groups = np.array([operator_of(layer) for layer, _ in timed])
    is_known = np.isfinite(predicted)
    for group in sorted(set(groups)):
        part = (groups == group) & is_known
        if part.sum() >= least:
            yield group, accuracy(predicted[part], ms[part])
    if is_known.sum() > 1:
        yield "all", accuracy(predicted[is_known], ms[is_known])


def alike_as_one(timed: Timed) -> list[tuple[str, float]]:
    """Merge layers of equal description, with the median of their times.

    Otherwise the same layer of two networks could be both fitted and held out.
    """
    times: dict[str, list[float]] = {}
    for layer, ms in timed:
        times.setdefault(layer, []).append(ms)
    return [(layer, float(np.median(ms))) for layer, ms in times.items()]


def tenths(timed: Timed) -> Int64[ndarray, " n"]:
    """Fold of each layer in ten-fold cross-validation; equal input gives equal folds.

    Folds are stratified by size within each operator: ten neighbours by operations and bytes go to ten
    folds at random, so that the largest layers are not held out together.
    """
    generator = np.random.default_rng(0)
    sizes = regression_inputs([layer for layer, _ in timed]).sum(axis=1)
    by_size = sorted(range(len(timed)), key=lambda i: (operator_of(timed[i][0]), sizes[i]))
    parts = np.empty(len(timed), np.int64)
    for start in range(0, len(timed), FOLDS):
        neighbours = by_size[start : start + FOLDS]
        parts[neighbours] = generator.permutation(FOLDS)[: len(neighbours)]
    return parts


def held_out(timed: Timed, parts: Int64[ndarray, " n"], fit: LayerFit) -> Float64[ndarray, " n"]:
    """Milliseconds of every layer, predicted by a fit to all folds but its own; NaN where it has none."""
    predicted = np.full(len(timed), np.nan)
    for part in sorted(set(parts.tolist())):
        held_out_layers = [timed[i][0] for i in np.flatnonzero(parts == part).tolist()]
        seen = [row for row, fold in zip(timed, parts, strict=True) if fold != part]
        predicted[parts == part] = fitted(seen, fit).predict_us(held_out_layers) / 1e3
    return predicted


def fitted(timed: Timed, fit: LayerFit) -> PredictsLayers:
    """Fit layers and their milliseconds."""
    layers, ms = zip(*timed, strict=True)
    return fit(layers, 1e3 * np.array(ms))
