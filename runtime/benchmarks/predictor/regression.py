"""Execution time of a layer, predicted from its shapes: by the product's model, or by eq. 6 as printed.

`E_i = w_1 x_i1 + ... + b`, eq. 6 of the CPU-GPU co-scheduling source: one linear regression for each kind of
layer over its operations and the elements that it reads and writes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, final

import numpy as np
from jaxtyping import Float64
from numpy import ndarray
from torch import nn

from edgenas_runtime.network.program import NETWORK_INPUT, Program, Segment
from edgenas_runtime.network.segment_kind import SegmentKind
from edgenas_runtime.scheduling.chain import Chain
from latency.models.layers import regression_inputs

_OPERATORS = {SegmentKind.CONV: "Conv", SegmentKind.LINEAR: "Gemm"}


class PredictsLayers(Protocol):
    """Predicts the execution time of layers on one device."""

    def predict_us(self, layers: Sequence[str]) -> Float64[ndarray, "n"]:
        """Microseconds of each layer; NaN where none of its operator was timed."""


def layers(program: Program, input_shape: Sequence[int]) -> tuple[str, ...]:
    """Every segment of a program in words, as `latency.models.layers` reads them."""
    shapes = {NETWORK_INPUT: tuple(input_shape)}
    shapes.update({i: segment.output_shape for i, segment in enumerate(program.segments)})
    return tuple(
        _in_words(segment, [shapes[i] for i in segment.inputs]) for segment in program.segments
    )


def _in_words(segment: Segment, inputs: Sequence[Sequence[int]]) -> str:
    operator = _OPERATORS.get(segment.kind, segment.kind.value)
    if segment.kind is SegmentKind.POOL:
        operator = type(segment.body).__name__
    is_weighted = segment.kind in _OPERATORS
    modules = (each for each in segment.body.modules() if isinstance(each, nn.Conv2d | nn.Linear))
    weights = [tuple(each.weight.shape) for each in modules][:1] if is_weighted else []
    read = " ".join(map(_tensor, [*inputs[:1], *weights, *inputs[1:]]))
    return f"{operator} {read} > {_tensor(segment.output_shape)}"


def _tensor(shape: Sequence[int]) -> str:
    return f"float[{','.join(map(str, shape))}]"


def operator_of(layer: str) -> str:
    """The first word of a layer."""
    return layer.partition(" ")[0]


@final
@dataclass(frozen=True)
class PlainPredictor:
    """A regression for each operator; weights of any sign, so that a time may be negative."""

    weights_us: Mapping[str, Float64[ndarray, "inputs"]]

    def predict_us(self, layers: Sequence[str]) -> Float64[ndarray, "n"]:
        """Microseconds of each layer; NaN where none of its operator was timed."""
        inputs = regression_inputs(layers)
        unknown = np.full(inputs.shape[1], math.nan)
        weights = [self.weights_us.get(operator_of(layer), unknown) for layer in layers]
        return np.asarray((inputs * np.array(weights)).sum(axis=1))


def fit_plain(layers: Sequence[str], us: Float64[ndarray, "n"]) -> PlainPredictor:
    """Eq. 6 as printed: least squares of the times."""
    operators, inputs = np.array([*map(operator_of, layers)]), regression_inputs(layers)
    weights = {}
    for operator in np.unique(operators):
        alike = operators == operator
        scale = np.abs(inputs[alike]).max(axis=0)
        scale[scale == 0] = 1.0
        weights[str(operator)] = np.linalg.lstsq(inputs[alike] / scale, us[alike])[0] / scale
    return PlainPredictor(weights)


def predicted_chain(
    name: str, program: Program, input_shape: Sequence[int], predictors: Sequence[PredictsLayers]
) -> Chain:
    """The chain of a program with predicted times, given a predictor for each lane."""
    words = layers(program, input_shape)
    lanes_ms = [(predictor.predict_us(words) / 1e3).tolist() for predictor in predictors]
    return Chain(name, program.kinds, tuple(zip(*lanes_ms, strict=True)))
