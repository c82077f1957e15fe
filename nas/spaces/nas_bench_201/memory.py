"""RAM and flash of networks on a microcontroller, from the operations of their cells."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from typing import final

from edgenas_core.types.task import Task
from nas.spaces.microcontroller import IMAGE, MicroGraph, memory_of
from nas.spaces.nas_bench_201.costs import CELLS_PER_STAGE, STAGES
from nas.spaces.nas_bench_201.space import EDGES


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
        weights = inputs * self._channels * kernel**2
        if read is None:  # it is computed, from a constant
            weights += self.graph.zeros(self._size)
        reads = () if read is None else (read,)
        made = self.graph.add(
            "CONV_2D", *reads, elements=self._size, weights=weights, channels=self._channels
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
