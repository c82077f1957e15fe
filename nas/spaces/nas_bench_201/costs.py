"""Floating-point operations and parameters of every architecture, as the official archive counts.

The archive's counter (AutoDL-Projects, `flop_benchmark.py`) calls one multiply-accumulate one
FLOP, and sums convolutions and the linear layer with its bias. Normalisation, ReLU, pooling,
`none` and the sums of nodes count as zero FLOPs, but normalisation has parameters. An operation
counts even on an edge that is on no path from input to output.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from edgenas_core.types.task import Task
from nas.spaces.base import Layer
from nas.spaces.nas_bench_201.space import OPERATIONS

CELLS_PER_STAGE = 5
STAGES = ((16, 1), (32, 2), (64, 4))
"""(channels, factor by which the side of the image has shrunk) of each stage."""

_REDUCTIONS = tuple(pairwise(STAGES))
_KERNELS = {"nor_conv_1x1": 1, "nor_conv_3x3": 3}


def parameters(architectures: Int64[ndarray, "*n 6"], task: Task) -> Int64[ndarray, "*n"]:
    """Number of trained parameters of each network."""
    first, last = STAGES[0][0], STAGES[-1][0]
    stem = _weights(3, 3, first) + _normalisation(first)
    residual_blocks = sum(
        _residual_block(inputs, outputs) + 2 * _normalisation(outputs)
        for (inputs, _), (outputs, _) in _REDUCTIONS
    )
    head = _normalisation(last) + _classifier(task)
    edge = {
        name: sum(_weights(kernel, c, c) + _normalisation(c) for c, _ in STAGES)
        for name, kernel in _KERNELS.items()
    }
    return np.asarray(stem + residual_blocks + head + _cells(edge, architectures))


def mflops(architectures: Int64[ndarray, "*n 6"], task: Task) -> Float64[ndarray, "*n"]:
    """Millions of multiply-accumulates for one image."""
    stem = _weights(3, 3, STAGES[0][0]) * _pixels(task, 1)
    residual_blocks = sum(
        _residual_block(inputs, outputs) * _pixels(task, shrunk)
        for (inputs, _), (outputs, shrunk) in _REDUCTIONS
    )
    edge = {
        name: sum(_weights(kernel, c, c) * _pixels(task, shrunk) for c, shrunk in STAGES)
        for name, kernel in _KERNELS.items()
    }
    flops = stem + residual_blocks + _classifier(task) + _cells(edge, architectures)
    return np.asarray(flops / 1e6)


def layers(architecture: Int64[ndarray, "6"], task: Task) -> list[Layer]:
    """The stem, the cells of each stage with the block that halves the side before them, the head."""
    kernels = [_KERNELS[name] for name in (OPERATIONS[i] for i in architecture) if name in _KERNELS]
    rows: list[Layer] = []
    inputs = 3
    for number, (outputs, shrunk) in enumerate(STAGES):
        side, pixels = task.image_side // shrunk, _pixels(task, shrunk)
        name, weights, scales = "3x3 convolution", _weights(3, inputs, outputs), 1
        if number:
            name, weights, scales = "residual block", _residual_block(inputs, outputs), 2
        rows.append(
            Layer(name, outputs, side, weights + scales * _normalisation(outputs), weights * pixels)
        )
        weights = CELLS_PER_STAGE * sum(_weights(kernel, outputs, outputs) for kernel in kernels)
        scales = CELLS_PER_STAGE * len(kernels) * _normalisation(outputs)
        cells = f"{CELLS_PER_STAGE} cells"
        rows.append(Layer(cells, outputs, side, weights + scales, weights * pixels))
        inputs = outputs
    head = _classifier(task)
    name = "average pooling, classifier"
    rows.append(Layer(name, task.num_classes, 1, _normalisation(inputs) + head, head))
    return rows


def _cells(edge: dict[str, int], architectures: Int64[ndarray, "*n 6"]) -> Int64[ndarray, "*n"]:
    """Cost of all cells of a network; `edge` is the cost of an operation in one cell of each stage."""
    cost = np.array([edge.get(name, 0) for name in OPERATIONS], np.int64)
    return np.asarray(CELLS_PER_STAGE * cost[architectures].sum(axis=-1))


def _weights(kernel: int, inputs: int, outputs: int) -> int:
    """Weights of a convolution without bias; also its multiply-accumulates for one output pixel."""
    return kernel**2 * inputs * outputs


def _residual_block(inputs: int, outputs: int) -> int:
    """Weights of its two convolutions and of its shortcut, which is not normalised.

    All three compute the smaller image: the first convolution has stride 2, the shortcut pools first.
    """
    shortcut = _weights(1, inputs, outputs)
    return _weights(3, inputs, outputs) + _weights(3, outputs, outputs) + shortcut


def _pixels(task: Task, shrunk: int) -> int:
    return (task.image_side // shrunk) ** 2


def _normalisation(channels: int) -> int:
    """Parameters: a scale and a shift for each channel."""
    return 2 * channels


def _classifier(task: Task) -> int:
    """Weights and biases; the counter calls each of them one FLOP."""
    return (STAGES[-1][0] + 1) * task.num_classes
