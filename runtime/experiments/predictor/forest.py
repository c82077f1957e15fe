"""A regression's error, learned by a forest of regression trees from a layer's shape.

Libraries choose another kernel from shape to shape, so that a layer's time has steps which no sum of
operations and bytes has. nn-Meter (Zhang et al., MobiSys 2021) predicts kernels by random forests
(Breiman, 2001) over their shapes for this reason. A forest cannot go beyond the times it saw; here
it says only by what factor the regression is wrong, so that a layer larger than all timed ones is
still predicted by its operations.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from runtime.experiments.predictor.regression import Layer, LayerPredictor, fit

_TREES = 30
_LEAST_LEAF = 2
_DEPTH = 12
_LEAST_LAYERS = 12
"""Of a kind; for fewer the regression stands."""
_TILE = 64
"""Of a matrix product, in rows and columns of its result: what a thread block computes at once."""


@final
@dataclass(frozen=True)
class CorrectedPredictor:
    """A regression times the factor that a forest says; one forest a kind."""

    regression: LayerPredictor
    forests: Mapping[str, tuple[_Tree, ...]]

    def ms(self, layer: Layer) -> float:
        """Milliseconds.

        Raises:
          KeyError: if no layer of its kind was timed.
        """
        ms = self.regression.ms(layer)
        forest = self.forests.get(layer.group)
        if forest is None:
            return ms
        x = _described(layer)
        return ms * math.exp(math.fsum(tree.value(x) for tree in forest) / len(forest))


def fit_corrected(device: str, timed: Sequence[tuple[Layer, float]]) -> CorrectedPredictor:
    """The predictor of these layers and their milliseconds; the same layers give the same.

    Raises:
      ValueError: if a time is not positive.
    """
    regression = fit(device, timed)
    by_group: dict[str, list[tuple[Layer, float]]] = {}
    for layer, ms in timed:
        by_group.setdefault(layer.group, []).append((layer, ms))
    generator = np.random.default_rng(0)
    forests = {
        group: _forest(regression, rows, generator)
        for group, rows in by_group.items()
        if len(rows) >= _LEAST_LAYERS
    }
    return CorrectedPredictor(regression, forests)


def _forest(
    regression: LayerPredictor, rows: Sequence[tuple[Layer, float]], generator: np.random.Generator
) -> tuple[_Tree, ...]:
    x = np.array([_described(layer) for layer, _ in rows])
    told = np.array([regression.ms(layer) for layer, _ in rows])
    ms = np.array([ms for _, ms in rows])
    y = np.where(told > 0, np.log(ms / np.where(told > 0, told, 1.0)), 0.0)
    return tuple(
        _Tree.grown(x[drawn], y[drawn], _DEPTH, generator)
        for drawn in generator.integers(0, len(rows), (_TREES, len(rows)))
    )


def _described(layer: Layer) -> Float64[ndarray, " d"]:
    """Logarithms of what is computed and moved, the matrix product behind it, and the kernel."""
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


def _matrix_product(layer: Layer) -> tuple[float, float, float]:
    """Rows, columns and depth of the product that a convolution or a linear layer is."""
    _, flops, _, output_bytes, weight_bytes, *_ = layer.features
    if not flops or not weight_bytes:
        return 1.0, 1.0, 1.0
    rows = max(1.0, 2 * flops / weight_bytes)  # every weight, 4 bytes, is used once a row: 2 flops
    columns = max(1.0, output_bytes / 4 / rows)
    return rows, columns, max(1.0, flops / (2 * rows * columns))


@final
@dataclass(frozen=True)
class _Tree:
    """A split, or a leaf, which has no branches."""

    feature: int
    threshold: float
    branches: tuple[_Tree, _Tree] | None
    mean: float

    def value(self, x: Float64[ndarray, " d"]) -> float:
        """Of the leaf to which x comes."""
        node = self
        while node.branches is not None:
            node = node.branches[int(x[node.feature] > node.threshold)]
        return node.mean

    @classmethod
    def grown(
        cls,
        x: Float64[ndarray, "n d"],
        y: Float64[ndarray, " n"],
        depth: int,
        generator: np.random.Generator,
    ) -> _Tree:
        """Each split is the one, of half of the features, that leaves the least squared error."""
        mean = float(y.mean())
        n = len(y)
        if depth == 0 or n < 2 * _LEAST_LEAF or np.ptp(y) == 0:
            return cls(0, 0.0, None, mean)
        features = generator.permutation(x.shape[1])[: -(-x.shape[1] // 2)]
        order = np.argsort(x[:, features], axis=0, kind="stable")
        ordered = np.take_along_axis(x[:, features], order, axis=0)
        sums = np.cumsum(y[order], axis=0)
        left = np.arange(1, n)[:, None]
        gain = sums[:-1] ** 2 / left + (sums[-1] - sums[:-1]) ** 2 / (n - left)
        allowed = (ordered[1:] > ordered[:-1]) & (left >= _LEAST_LEAF) & (n - left >= _LEAST_LEAF)
        gain[~allowed] = -np.inf
        at, column = np.unravel_index(int(gain.argmax()), gain.shape)
        if not allowed[at, column]:
            return cls(0, 0.0, None, mean)
        feature = int(features[column])
        threshold = float(ordered[at : at + 2, column].mean())
        is_left = x[:, feature] <= threshold
        branches = (
            cls.grown(x[is_left], y[is_left], depth - 1, generator),
            cls.grown(x[~is_left], y[~is_left], depth - 1, generator),
        )
        return cls(feature, threshold, branches, mean)
