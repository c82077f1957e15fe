"""Latency of a network as the sum of its layers, each predicted from its kind and its shapes.

A layer is a node of the graph as the runtime has fused it, in words: operator, inputs, outputs::

    Conv.nchwc float[1,16,64,64] float[16,1,3,3] float[16] > float[1,16,32,32]
    QLinearConv(3x3:24) uint8[1,90,90,24] float[] uint8[] float[24] ... > uint8[1,90,90,24]

The name of the operator is followed by its layout, or by kernel and groups where no tensor tells them.
nn-Meter (Zhang et al., MobiSys 2021) also predicts kernels: a library takes another kernel from shape
to shape, so that times have steps. Here trees give the factor by which a linear model of the layer's
operations and elements errs, one model for each kind of layer.

`choose_doubtful` chooses the networks to profile next: those whose layers the model of the profiled ones is
least sure of. A region is a kind of layer and two octaves of its size. Its weight is how far trees disagree on
the candidates' new layers in it, by their shares of the predicted time; each layer timed in it counts less.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, final

import numpy as np
from jaxtyping import Float64
from numpy import ndarray
from threadpoolctl import threadpool_limits

from latency.probe.layer_times import LayerTime

_FEWEST = 5
"""Layers of a kind that it takes for a linear model of its own; one model of all kinds predicts the others."""

_FEWEST_FOR_TREES = 30

_LEAST_US = 0.05
"""Shortest time of a layer."""

TREES = 40
"""Of each kind's forest; boosted trees are added where there are layers enough."""

_TENSOR = re.compile(r"([a-z]+\d*)\[([\d,]*)\]")
_KERNEL = re.compile(r"\((\d+)(?:x(\d+))?:(\d+)\)")
_ELEMENTS, _MOVED, _OPERATIONS = slice(14, 17), 17, 19
"""Features that the linear model has, beside a constant."""


@final
@dataclass(frozen=True)
class _KindModel:
    """A linear model times the factor that trees predict; microseconds.

    With trees no layer is slower than the slowest of the fit, or only by as much as it is by the linear model.
    """

    weights: Float64[ndarray, "inputs"]
    trees: Sequence[Any]
    slowest_us: float
    slowest_linear_us: float  # of the fit, by the linear model

    def predict(self, features: Float64[ndarray, "n F"]) -> Float64[ndarray, "n"]:
        linear = _linear(features, self.weights)
        if not self.trees:
            return linear
        logs = np.log1p(features)
        us = linear * np.exp(np.mean([each.predict(logs) for each in self.trees], 0))
        slower = np.maximum(1.0, linear / self.slowest_linear_us)
        return np.asarray(np.minimum(us, self.slowest_us * slower))

    def spread(self, features: Float64[ndarray, "n F"]) -> Float64[ndarray, "n"]:
        """Standard deviation of the logarithm among the trees of the forest; 1 without trees."""
        if not self.trees:
            return np.ones(len(features))
        logs = np.log1p(features).astype(np.float32)  # as trees read them
        return np.asarray(np.std([each.predict(logs) for each in self.trees[0].estimators_], 0))


@final
@dataclass(frozen=True)
class LayerModel:
    """Models of each kind of layer of one device; the kind `""` stands for all."""

    kinds: Mapping[str, _KindModel]

    def predict_us(self, layers: Sequence[str]) -> Float64[ndarray, "n"]:
        """Microseconds of each layer."""
        return self._by_kind(layers, _KindModel.predict)

    def doubt_us(self, layers: Sequence[str]) -> Float64[ndarray, "n"]:
        """Microseconds by which the trees disagree on each layer."""
        return np.asarray(self.predict_us(layers) * self._by_kind(layers, _KindModel.spread))

    def _by_kind(
        self,
        layers: Sequence[str],
        predict: Callable[[_KindModel, Float64[ndarray, "n F"]], Float64[ndarray, "n"]],
    ) -> Float64[ndarray, "n"]:
        numbers = np.empty(len(layers))
        names = np.array([kind if (kind := kind_of(each)) in self.kinds else "" for each in layers])
        features = _features(layers)
        with threadpool_limits(1):
            for name in np.unique(names):
                numbers[names == name] = predict(self.kinds[str(name)], features[names == name])
        return numbers


def fit_layers(
    layers: Sequence[str], us: Float64[ndarray, "n"], *, trees: int = TREES
) -> LayerModel:
    """Fit a model of each kind to layers and their microseconds; equal input gives equal models.

    Without trees it is linear, as the published predictors of layers are.
    """
    us, features = np.maximum(us, _LEAST_US), _features(layers)
    names = np.array([*map(kind_of, layers)])
    import sklearn.ensemble  # noqa: F401, PLC0415 - its threads are limited once it is there

    with threadpool_limits(1):  # threads that wait for each other on busy cores take tenfold
        kinds = {"": _fit(features, us, trees // 2)}
        for name, count in zip(*np.unique(names, return_counts=True), strict=True):
            if count >= _FEWEST:
                of_kind = trees if count >= _FEWEST_FOR_TREES else 0
                kinds[str(name)] = _fit(features[names == name], us[names == name], of_kind)
    return LayerModel(kinds)


def _fit(features: Float64[ndarray, "n F"], us: Float64[ndarray, "n"], trees: int) -> _KindModel:
    from scipy.optimize import nnls  # noqa: PLC0415 - half a second that a table does not need
    from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor  # noqa: PLC0415 - loaded when needed

    inputs = _inputs(features)
    weights, _ = nnls(inputs / us[:, None], np.ones(len(us)))  # of the relative error
    linear_us = _linear(features, weights)
    slowest = float(us.max()), float(linear_us.max())
    if not trees:
        return _KindModel(weights, (), *slowest)
    factor, logs = np.log(us / linear_us), np.log1p(features)
    fitted = [ExtraTreesRegressor(trees, max_features=0.6, random_state=0).fit(logs, factor)]
    if len(us) > 2 * _FEWEST_FOR_TREES:
        boosted = HistGradientBoostingRegressor(
            max_iter=100, learning_rate=0.1, min_samples_leaf=5, random_state=0
        )
        fitted.append(boosted.fit(logs, factor))
    return _KindModel(weights, fitted, *slowest)


def _inputs(features: Float64[ndarray, "n F"]) -> Float64[ndarray, "n inputs"]:
    ones = np.ones((len(features), 1))
    return np.concatenate([ones, features[:, _ELEMENTS], features[:, [_OPERATIONS]]], axis=1)


def _linear(
    features: Float64[ndarray, "n F"], weights: Float64[ndarray, "inputs"]
) -> Float64[ndarray, "n"]:
    return np.asarray(np.maximum(_inputs(features) @ weights, _LEAST_US))


def regression_inputs(layers: Sequence[str]) -> Float64[ndarray, "n inputs"]:
    """Of each layer 1, the elements of its first input, its others and its outputs, and its multiply-accumulates."""
    return _inputs(_features(layers))


def size_of(layer: str) -> tuple[float, float, float]:
    """Elements that a layer moves, values that each of its outputs sums, and its operations."""
    features = _features_of(layer)
    return features[_MOVED], features[_MOVED + 1], features[_OPERATIONS]


def kind_of(layer: str) -> str:
    """Operator, number format and, of a convolution, whether it is depthwise, grouped, 1x1 or larger.

    Products of one row or pixel are a kind of their own: they read each weight for one operation.
    """
    operator, tensors, (x, _, out) = _parsed(layer)
    name = f"{operator} {tensors[0][0] if tensors else ''}"
    if "Conv" in operator:
        return f"{name} {_convolution(layer)}{' pixel' * (out[2] * out[3] == 1)}"
    is_row = ("MatMul" in operator or "Gemm" in operator) and math.prod(x[:3]) == 1
    return f"{name} row" if is_row else name


def _convolution(layer: str) -> str:
    _, _, shapes = _parsed(layer)
    (_, channels, *_), (_, depth, *kernel), _ = shapes
    if depth == 1 and channels > 1:
        return "depthwise"
    blocked = "nchwc" in layer  # of images, whose channels are not
    return (
        "grouped" if depth < channels and not blocked else "1x1" if max(kernel) == 1 else "larger"
    )


def _features(layers: Sequence[str]) -> Float64[ndarray, "n F"]:
    return np.array([_features_of(each) for each in layers], np.float64)


@lru_cache(1 << 15)
def _features_of(layer: str) -> tuple[int | float, ...]:
    """Shapes of the first input, the weights and the output; what they amount to.

    The last are of kernels: ONNX Runtime computes 64 channels (4 vectors) of 6 pixels at once, from 128 channels at
    a time; int8 tiles take 16 channels from 64 values, and other kernels where the values are no multiple of 4.
    """
    operator, tensors, (x, weights, out) = _parsed(layer)
    inputs = [_elements(shape) for _, shape in tensors[: layer[: layer.index(">")].count("[")]]
    first, others, made = inputs[0] if inputs else 0.0, sum(inputs[1:]), _elements(out)
    depth, groups = 1.0, 1
    if "Conv" in operator:
        depth, groups = _elements(weights[1:]), max(1, x[1] // weights[1])
    elif "MatMul" in operator or "Gemm" in operator:
        depth = x[3]
    moved, operations = first + others + made, made * depth
    large = sum(len(shape) > 1 for _, shape in tensors)
    steps = ((out[3], 6), (out[1], 64), (out[1], 16), (x[1], 128), (depth, 64))
    padded = [-(-size // step) * step / size for size, step in steps]
    return (
        *(*x, *weights, *out, len(inputs), large, first, others, made, moved, depth, operations),
        *(operations / moved, x[2] / out[2], x[3] / out[3], out[2] * out[3]),
        *(weights[2] * weights[3], out[0] * out[1], -(-out[1] // 16) % 4, *padded, out[3] % 6),
        *(depth * 64, weights[2] * x[1] * x[3], groups, depth % 4, x[1] % 4, out[1] % 4),
    )


@lru_cache(1 << 15)
def _parsed(
    layer: str,
) -> tuple[str, list[tuple[str, list[int]]], tuple[list[int], list[int], list[int]]]:
    """Operator, tensors, and four dimensions each of the first input, the weights and the output."""
    before, _, after = layer.partition(">")
    operator = before.partition(" ")[0].partition("(")[0]
    inputs, outputs = _tensors(before), _tensors(after)
    x, out = (_four(each[0][1] if each else []) for each in (inputs, outputs))
    large = [shape for _, shape in inputs[1:] if len(shape) > 1]
    weights = _four(large[0] if large else [])
    kernel = _KERNEL.search(before.partition(" ")[0])
    if kernel and not large and "Conv" in operator:  # packed weights, channels last
        x, out = ([shape[0], shape[3], *shape[1:3]] for shape in (x, out))
        height, width, groups = (int(number or 1) for number in kernel.groups())
        weights = [out[1], max(1, x[1] // groups), height, width]
    return operator, [*inputs, *outputs], (x, weights, out)


def _tensors(text: str) -> list[tuple[str, list[int]]]:
    return [
        (kind, [max(1, int(each)) for each in shape.split(",") if each])
        for kind, shape in _TENSOR.findall(text)
    ]


def _four(shape: list[int]) -> list[int]:
    return [1] * (4 - len(shape)) + shape[-4:]


def _elements(shape: Sequence[int]) -> float:
    return float(np.prod(shape, dtype=np.float64))


_TREES = 8


def choose_doubtful(
    profiled: Sequence[Sequence[LayerTime]], candidates: Sequence[Sequence[str]], timings: int
) -> list[int]:
    """Numbers of the candidates to profile next, the best first, until they have `timings` layers together.

    Each candidate is the list of its layers; the last of those chosen may exceed `timings`.
    """
    times: dict[str, list[float]] = {}
    for layer, taken_us in (each for network in profiled for each in network):
        times.setdefault(layer, []).append(taken_us)
    model = fit_layers(
        [*times], np.array([np.median(each) for each in times.values()]), trees=_TREES
    )
    layers = [*dict.fromkeys([*times, *(layer for each in candidates for layer in each)])]
    sizes = np.log2(regression_inputs(layers).sum(axis=1)) // 2
    region = dict(zip(layers, zip(map(kind_of, layers), sizes.tolist(), strict=True), strict=True))
    us = dict(zip(layers, model.predict_us(layers).tolist(), strict=True))
    doubt_us = dict(zip(layers, model.doubt_us(layers).tolist(), strict=True))
    weights: Counter[tuple[str, float]] = Counter()
    for network in candidates:
        total_us = sum(us[layer] for layer in network)
        for layer in network:
            weights[region[layer]] += 0 if layer in times else doubt_us[layer] / total_us
    timed, counts = {*times}, Counter(region[layer] for layer in times)

    def gain(candidate: int) -> float:
        new = {*candidates[candidate]} - timed
        weighed = (weights[region[layer]] / (1 + counts[region[layer]]) for layer in new)
        return sum(weighed) / len(candidates[candidate])

    chosen: list[int] = []
    left = [number for number, network in enumerate(candidates) if network]
    while left and timings > 0:
        chosen.append(max(left, key=gain))
        left.remove(chosen[-1])
        timings -= len(candidates[chosen[-1]])
        for layer in {*candidates[chosen[-1]]} - timed:
            timed.add(layer)
            counts[region[layer]] += 1
    return chosen
