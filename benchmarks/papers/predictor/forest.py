"""The error of a regression, learned by a random forest from the shape of a layer.

Libraries choose another kernel from shape to shape, so that the time of a layer has steps which no
sum of operations and bytes has. nn-Meter (Zhang et al., MobiSys 2021) predicts kernels by random
forests (Breiman, 2001) over their shapes for this reason. A forest cannot extrapolate beyond the
times it was fitted to. Here it only gives the factor by which the regression is wrong, so that a
layer larger than all measured ones is still predicted by its number of operations.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from benchmarks.papers.predictor.regression import LayerFeatures, LayerPredictor, fit

if TYPE_CHECKING:
    from sklearn.ensemble import RandomForestRegressor

_FEWEST_LAYERS = 12
"""For a forest; a kind with fewer layers is predicted by the regression alone."""
_TILE = 64
"""Rows and columns of a matrix product that a thread block computes at once."""


@final
@dataclass(frozen=True)
class CorrectedPredictor:
    """A regression times the factor that a forest predicts; one forest for each kind of layer."""

    regression: LayerPredictor
    forests: Mapping[str, RandomForestRegressor]

    def ms(self, layer: LayerFeatures) -> float:
        """Predicted execution time in milliseconds.

        Raises:
          KeyError: if no layer of its kind was timed.
        """
        ms = self.regression.ms(layer)
        forest = self.forests.get(layer.group)
        return ms if forest is None else ms * math.exp(forest.predict(_shape(layer)[None])[0])


def fit_corrected(device: str, timed: Sequence[tuple[LayerFeatures, float]]) -> CorrectedPredictor:
    """Fit a predictor to layers and their milliseconds; equal layers give equal predictors.

    Raises:
      ValueError: if a time is not positive.
    """
    from sklearn.ensemble import RandomForestRegressor  # noqa: PLC0415 - slow to import

    regression = fit(device, timed)
    by_group: dict[str, list[tuple[LayerFeatures, float]]] = {}
    for layer, ms in timed:
        by_group.setdefault(layer.group, []).append((layer, ms))
    forests = {}
    for group, rows in by_group.items():
        if len(rows) < _FEWEST_LAYERS:
            continue
        predicted_ms = np.array([regression.ms(layer) for layer, _ in rows])
        is_above_0 = predicted_ms > 0
        ratio = np.array([ms for _, ms in rows]) / np.where(is_above_0, predicted_ms, 1.0)
        forest = RandomForestRegressor(
            30, max_depth=12, min_samples_leaf=2, max_features=0.5, random_state=0
        )
        x = np.array([_shape(layer) for layer, _ in rows])
        forests[group] = forest.fit(x, np.where(is_above_0, np.log(ratio), 0.0))
    return CorrectedPredictor(regression, forests)


def _shape(layer: LayerFeatures) -> Float64[ndarray, " d"]:
    """Logarithms of operations, bytes and the matrix product behind them; kernel and stride."""
    _, flops, input_bytes, output_bytes, weight_bytes, patch_bytes, *_ = layer.features
    moved = input_bytes + output_bytes + weight_bytes
    rows, columns, depth = _matrix_product(layer)
    tiles = math.ceil(rows / _TILE) * math.ceil(columns / _TILE)
    sizes = (
        *(flops, input_bytes, output_bytes, weight_bytes, input_bytes + patch_bytes, moved),
        *(rows, columns, depth, tiles, flops / max(moved, 1.0)),
    )
    kernel, stride = layer.kernel
    return np.array([*np.log1p(sizes), kernel, stride, " dw " in layer.kind])


def _matrix_product(layer: LayerFeatures) -> tuple[float, float, float]:
    """Rows, columns and depth of the matrix product that a convolution or linear layer computes."""
    _, flops, _, output_bytes, weight_bytes, *_ = layer.features
    if not flops or not weight_bytes:
        return 1.0, 1.0, 1.0
    rows = max(1.0, 2 * flops / weight_bytes)  # every weight, 4 bytes, is used once a row: 2 flops
    columns = max(1.0, output_bytes / 4 / rows)
    return rows, columns, max(1.0, flops / (2 * rows * columns))
