"""The network of NAS-Bench-201 (Dong & Yang, ICLR 2020, section 2.1), from operation names.

A stem, three stages of equal cells with a residual block before the second and the third, and a
classifier. Modules bear the names of the authors' code, so that their checkpoints load. An export holds the
text of this file, so it imports torch and the standard library alone.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from operator import add
from typing import final

import torch
from torch import Tensor, nn

NODES = 3
"""Nodes of a cell behind its input; each sums one operation of every node before it."""

EDGES = NODES * (NODES + 1) // 2


@final
class ReluConvBn(nn.Module):
    """ReLU, convolution without bias, batch normalisation; keeps the side at stride 1."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1) -> None:
        super().__init__()
        self.op = nn.Sequential(
            nn.ReLU(),
            nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False),
            nn.BatchNorm2d(outputs),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Shape (n, inputs, h, w) to (n, outputs, h / stride, w / stride)."""
        y: Tensor = self.op(x)
        return y


@final
class Zero(nn.Module):
    """`none`: zeros that still carry a gradient, as in the authors' code."""

    def forward(self, x: Tensor) -> Tensor:
        """Zeros of the same shape."""
        return x * 0.0


_OPERATIONS: dict[str, Callable[[int], nn.Module]] = {
    "none": lambda _: Zero(),
    "skip_connect": lambda _: nn.Identity(),
    "nor_conv_1x1": lambda channels: ReluConvBn(channels, channels, 1),
    "nor_conv_3x3": lambda channels: ReluConvBn(channels, channels, 3),
    "avg_pool_3x3": lambda _: nn.AvgPool2d(3, stride=1, padding=1, count_include_pad=False),
}


@final
class Cell(nn.Module):
    """Six operations between four nodes; a node is the sum of what enters it."""

    def __init__(self, operations: Sequence[str], channels: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(_OPERATIONS[name](channels) for name in operations)

    def forward(self, x: Tensor) -> Tensor:
        """The last node, of the input's shape."""
        nodes = [x]
        layers = iter(self.layers)
        for _ in range(NODES):
            nodes.append(reduce(add, [next(layers)(node) for node in nodes]))
        return nodes[-1]


@final
class ResidualBlock(nn.Module):
    """Halves the side: two convolutions beside an average pool and a 1x1 convolution."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv_a = ReluConvBn(inputs, outputs, 3, stride=2)
        self.conv_b = ReluConvBn(outputs, outputs, 3)
        self.downsample = nn.Sequential(
            nn.AvgPool2d(2, stride=2), nn.Conv2d(inputs, outputs, 1, bias=False)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Shape (n, inputs, h, w) to (n, outputs, h / 2, w / 2)."""
        y: Tensor = self.downsample(x) + self.conv_b(self.conv_a(x))
        return y


@final
class CellNetwork(nn.Module):
    """The whole network, for images of any side that is a multiple of 4."""

    def __init__(
        self,
        operations: Sequence[str],
        *,
        cells_per_stage: int = 5,
        channels: int = 16,
        num_classes: int = 10,
    ) -> None:
        """Builds it untrained.

        Args:
          operations: one name an edge, in the order of the benchmark's strings: the inputs of
            node 1, then those of node 2, then those of node 3.
          cells_per_stage: N in the paper.
          channels: of the first stage, C in the paper; each later stage has twice as many.
          num_classes: outputs of the classifier.

        Raises:
          ValueError: if there are not six operations, or one is unknown.
        """
        super().__init__()
        if len(operations) != EDGES:
            raise ValueError(f"{len(operations)} operations given, a cell has {EDGES}")
        for name in operations:
            if name not in _OPERATIONS:
                raise ValueError(f"operation {name!r} is not one of {', '.join(_OPERATIONS)}")
        self.stem = nn.Sequential(
            nn.Conv2d(3, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels)
        )
        self.cells = nn.ModuleList()
        for stage in range(3):
            if stage > 0:
                self.cells.append(ResidualBlock(channels, 2 * channels))
                channels *= 2
            self.cells.extend(Cell(operations, channels) for _ in range(cells_per_stage))
        self.lastact = nn.Sequential(nn.BatchNorm2d(channels), nn.ReLU())
        self.global_pooling = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(channels, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        """Logits; the authors' forward also returns the features before the classifier."""
        x = self.stem(images)
        for cell in self.cells:
            x = cell(x)
        x = self.global_pooling(self.lastact(x))
        logits: Tensor = self.classifier(torch.flatten(x, 1))
        return logits


def example_input(size: int, *, batch_size: int = 1) -> Tensor:
    """Noise in the shape of images, the same at every call, to trace or time a network with.

    Noise and not zeros: arithmetic on zeros draws less power, and a GPU then clocks higher.
    """
    return torch.randn(batch_size, 3, size, size, generator=torch.Generator().manual_seed(0))
