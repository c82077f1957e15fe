"""Python source of a network, which needs torch alone."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from string import Template

from nas.spaces.nas_bench_201.space import EDGES

_LAYERS = {
    "none": "Zero()",
    "skip_connect": "nn.Identity()",
    "nor_conv_1x1": "ReluConvBn(channels, channels, 1)",
    "nor_conv_3x3": "ReluConvBn(channels, channels, 3)",
    "avg_pool_3x3": "nn.AvgPool2d(3, stride=1, padding=1, count_include_pad=False)",
}

_ZERO = '''
class Zero(nn.Module):
    """Zeros of the input's shape."""

    def forward(self, x):
        return x * 0.0

'''

_FILE = Template('''import torch
from torch import nn


class ReluConvBn(nn.Module):
    """ReLU, convolution without bias, batch normalisation; keeps the side at stride 1."""

    def __init__(self, inputs, outputs, kernel, stride=1):
        super().__init__()
        self.op = nn.Sequential(
            nn.ReLU(),
            nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False),
            nn.BatchNorm2d(outputs),
        )

    def forward(self, x):
        return self.op(x)

$zero
class Cell(nn.Module):
    """Six operations between four nodes; a node is the sum of what enters it."""

    def __init__(self, channels):
        super().__init__()
        self.layers = nn.ModuleList(
            [
$layers
            ]
        )

    def forward(self, node_0):
        layer = self.layers
$nodes


class ResidualBlock(nn.Module):
    """Halves the side: two convolutions beside an average pool and a 1x1 convolution."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv_a = ReluConvBn(inputs, outputs, 3, stride=2)
        self.conv_b = ReluConvBn(outputs, outputs, 3)
        self.downsample = nn.Sequential(
            nn.AvgPool2d(2, stride=2), nn.Conv2d(inputs, outputs, 1, bias=False)
        )

    def forward(self, x):
        return self.downsample(x) + self.conv_b(self.conv_a(x))


class Network(nn.Module):
    """A stem, three stages of five cells, a classifier: images (n, 3, h, w) to logits (n, $classes)."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16))
        self.cells = nn.ModuleList(
            [
                *[Cell(16) for _ in range(5)],
                ResidualBlock(16, 32),
                *[Cell(32) for _ in range(5)],
                ResidualBlock(32, 64),
                *[Cell(64) for _ in range(5)],
            ]
        )
        self.lastact = nn.Sequential(nn.BatchNorm2d(64), nn.ReLU())
        self.global_pooling = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(64, $classes)

    def forward(self, images):
        x = self.stem(images)
        for cell in self.cells:
            x = cell(x)
        x = self.global_pooling(self.lastact(x))
        return self.classifier(torch.flatten(x, 1))
''')


def network_source(operations: Sequence[str], classes: int) -> str:
    """Source of a module that defines `Network`; it has no docstring."""
    layers = "\n".join(
        f"{' ' * 16}{_LAYERS[name]},  # node {start} to node {end}: {name}"
        for name, (start, end) in zip(operations, EDGES, strict=True)
    )
    return _FILE.substitute(
        zero=_ZERO if "none" in operations else "",
        layers=layers,
        nodes=textwrap.indent("\n".join(_sums()), " " * 8),
        classes=classes,
    )


def _sums() -> list[str]:
    """A line for each node after the first; the terms are in the order that the network adds them."""
    lines = []
    for node in sorted({end for _, end in EDGES}):
        terms = [
            f"layer[{edge}](node_{start})" for edge, (start, end) in enumerate(EDGES) if end == node
        ]
        lines.append(f"node_{node} = {' + '.join(terms)}")
    return [*lines, f"return node_{max(end for _, end in EDGES)}"]
