"""Floating-point operations and parameters of every architecture, as the official archive counts.

The archive's counter (AutoDL-Projects, `flop_benchmark.py`) calls one multiply-accumulate one
FLOP, and sums convolutions and the linear layer with its bias. Normalisation, ReLU, pooling,
`none` and the sums of nodes count as zero FLOPs, but normalisation has parameters. An operation
counts even on an edge that is on no path from input to output.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from itertools import pairwise
from typing import final

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from edgenas_core.types.task import Task
from nas.spaces.base import Layer
from nas.spaces.microcontroller import IMAGE, MicroGraph, memory_of
from nas.spaces.nas_bench_201.space import EDGES, OPERATIONS

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
    """Number of weights of the two convolutions and of the shortcut, which has no normalisation.

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


def memory(operations: Sequence[str], task: Task) -> tuple[int, int]:
    """RAM and flash in bytes of a network's int8 .tflite file.

    Each further cell of a stage adds the same, which is taken from networks of one and two.
    """
    of_one, of_two = (_Cells(operations, task, cells).graph.converted() for cells in (1, 2))
    added = CELLS_PER_STAGE - 2
    kernels, file = (
        with_two + added * (with_two - with_one)
        for with_one, with_two in zip(of_one.held(), of_two.held(), strict=True)
    )
    return memory_of([of_two.activations()], [(kernels, file)])


def graph(operations: Sequence[str], task: Task) -> MicroGraph:
    """Operations of a network's int8 .tflite file."""
    return _Cells(operations, task, CELLS_PER_STAGE).graph.converted()


@final
class _Cells:
    """The network of a cell as a graph, with so many cells in each stage; None is an activation of zeros."""

    def __init__(self, operations: Sequence[str], task: Task, cells: int) -> None:
        self.graph = MicroGraph(3 * task.image_side**2)
        self._operations = operations
        output: int | None = IMAGE
        inputs = 3
        for channels, shrunk in STAGES:
            self._channels, self._size = channels, channels * (task.image_side // shrunk) ** 2
            if shrunk == 1:
                output = self._convolution(IMAGE, inputs, 3)
            elif output is not None:
                output = self._halved(output, inputs, task.image_side // shrunk)
            for _ in range(cells):
                output = self._cell(output)
            inputs = channels
        read = () if output is None else (self._mean(output),)
        classes = task.num_classes
        self.graph.add(
            "FULLY_CONNECTED",
            *read,
            elements=classes,
            weights=inputs * classes,
            channels=classes,
        )

    def _add(self, kind: str, *read: int) -> int:
        weights = self._channels if kind == "BATCH_NORM" else 0
        return self.graph.add(kind, *read, elements=self._size, weights=weights)

    def _convolution(self, read: int | None, inputs: int, kernel: int, *, norm: bool = True) -> int:
        reads = () if read is None else (read,)
        made = self.graph.add(
            "CONV_2D",
            *reads,
            elements=self._size,
            weights=inputs * self._channels * kernel**2,
            channels=self._channels,
            kernel=kernel**2,
            zeros=self._size if read is None else 0,  # it is computed, from a constant
        )
        return self._add("BATCH_NORM", made) if norm else made

    def _edge(self, operation: str, read: int | None) -> int | None:
        if operation == "none":
            return None
        if operation.startswith("nor_conv"):
            kernel = 3 if operation == "nor_conv_3x3" else 1
            relu = None if read is None else self._add("RELU", read)
            return self._convolution(relu, self._channels, kernel)
        if operation == "skip_connect":
            return read
        if read is None:
            return self.graph.pool_zeros(self._size)
        return self._add("AVERAGE_POOL_2D", read)

    def _cell(self, read: int | None) -> int | None:
        nodes, operations = [read], iter(self._operations)
        for _ in {target for _, target in EDGES}:
            outputs = [self._edge(next(operations), node) for node in nodes]
            terms = [output for output in outputs if output is not None]
            nodes.append(reduce(partial(self._add, "ADD"), terms) if terms else None)
        return nodes[-1]

    def _halved(self, read: int, inputs: int, side: int) -> int:
        """The block that halves the side, and doubles the channels."""
        pooled = self.graph.add("AVERAGE_POOL_2D", read, elements=inputs * side**2)
        beside = self._convolution(pooled, inputs, 1, norm=False)
        relu = self.graph.add("RELU", read, elements=inputs * (2 * side) ** 2)
        padded = self.graph.add("PAD", relu, elements=inputs * (2 * side + 2) ** 2)
        made = self._add("RELU", self._convolution(padded, inputs, 3))
        return self._add("ADD", beside, self._convolution(made, self._channels, 3))

    def _mean(self, read: int) -> int:
        relu = self._add("RELU", self._add("BATCH_NORM", read))
        return self.graph.add("MEAN", relu, elements=self._channels)
