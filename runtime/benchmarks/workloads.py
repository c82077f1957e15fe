"""The networks of the experiments, and the published workloads composed of them.

Weights are random: execution times do not depend on them. Each instance of a network has its own
weights, like networks of different users.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from typing import final

import torch
from torch import Tensor, nn

from benchmarks.dispatch.prepared import DispatchedNetwork
from benchmarks.networks.alexnet import AlexNet
from benchmarks.networks.densenet import DenseLayer, DenseNet
from benchmarks.networks.vgg import VGG
from edgenas_core.inference.models.nas_bench_201 import Cell, CellNetwork, ResidualBlock
from edgenas_core.inference.models.resnet import ResNet, ResNetBlock
from edgenas_runtime.network.decompose import Rule


class Model(Enum):
    """A network of the published workloads, or of NAS-Bench-201."""

    densenet201 = "densenet201"
    resnet152 = "resnet152"
    vgg16 = "vgg16"
    alexnet = "alexnet"
    nas_bench_201 = "nas_bench_201"
    nas_bench_201_mixed = "nas_bench_201_mixed"


OPERATIONS = ("nor_conv_3x3",) * 6
"""Architecture of the NAS-Bench-201 network: the slowest of the space."""

MIXED_OPERATIONS = (
    "nor_conv_3x3",
    "avg_pool_3x3",
    "nor_conv_1x1",
    "skip_connect",
    "nor_conv_3x3",
    "none",
)
"""Another architecture, nearer to the median: each operation once, the convolution twice."""

SMALL = (Model.nas_bench_201, Model.nas_bench_201_mixed)
"""Networks for images of 32 x 32 pixels."""

CELLS: dict[Model, tuple[type[nn.Module], ...]] = {
    Model.densenet201: (DenseLayer,),
    Model.resnet152: (ResNetBlock,),
    Model.vgg16: (),
    Model.alexnet: (),
    Model.nas_bench_201: (Cell, ResidualBlock),
    Model.nas_bench_201_mixed: (Cell, ResidualBlock),
}
"""Types of the modules that are cells; plain chains have none."""


@final
@dataclass(frozen=True)
class Scale:
    """Scale of networks and images relative to the published ones."""

    width: float = 1.0
    """Factor of the channels of every layer."""
    image: float = 1.0
    """Factor of the image side, 224 pixels, or 32 for NAS-Bench-201. AlexNet and VGG keep their side:
    for another one their pooling to a fixed size cannot be exported to ONNX."""

    def of(self, full: int, *, least: int = 1) -> int:
        """Scaled number of channels."""
        return max(least, round(full * self.width))

    def side(self, model: Model) -> int:
        """Scaled side of an image in pixels; a multiple of 4 for NAS-Bench-201."""
        if model in {Model.alexnet, Model.vgg16}:
            return 224
        if model in SMALL:
            return max(8, 4 * round(8 * self.image))
        return max(64, round(224 * self.image))


_BUILDERS: dict[Model, Callable[[Scale], nn.Module]] = {
    Model.densenet201: lambda scale: DenseNet(201, growth=scale.of(32, least=2)),
    Model.resnet152: lambda scale: ResNet(152, width=scale.of(64, least=2)),
    Model.vgg16: lambda scale: VGG(16, width=scale.of(64, least=2)),
    Model.alexnet: lambda scale: AlexNet(width=scale.of(64, least=2)),
    Model.nas_bench_201: lambda scale: CellNetwork(OPERATIONS, channels=scale.of(16, least=4)),
    Model.nas_bench_201_mixed: lambda scale: CellNetwork(
        MIXED_OPERATIONS, channels=scale.of(16, least=4)
    ),
}

_BY_CHANNEL = (Model.vgg16,)
"""Networks that an H200 runs faster in channels-last layout, alone and together:
their convolutions need no conversion of the layout."""

_IMAGE_DIMS = 4


@final
class Built(nn.Module):
    """A network that is pickled as the arguments that build it, not as its weights."""

    def __init__(
        self, model: Model, scale: Scale, seed: int, device: str, by_channel: bool
    ) -> None:
        """Build the network on a device; equal arguments give equal weights.

        With `by_channel` weights and activations are in channels-last layout, for tensor cores.
        """
        super().__init__()
        self._recipe = (model, scale, seed, device, by_channel)
        with torch.random.fork_rng(), torch.device(device), torch.no_grad():
            torch.manual_seed(seed)
            self.network = _BUILDERS[model](scale).eval()
            if by_channel:
                for weight in self.network.parameters():
                    if weight.dim() == _IMAGE_DIMS:
                        weight.data = weight.contiguous(memory_format=torch.channels_last)
        self.eval()

    def forward(self, images: Tensor) -> Tensor:
        """Logits."""
        logits: Tensor = self.network(images)
        return logits

    def __reduce__(self) -> tuple[type[Built], tuple[object, ...]]:
        return Built, self._recipe


@cache
def source(
    model: Model,
    *,
    scale: Scale,
    seed: int = 0,
    device: str = "cpu",
    rule: Rule = Rule.FUSED,
    by_channel: bool | None = None,
) -> DispatchedNetwork:
    """One instance of a network with its input on the device; cached.

    `by_channel` is the memory layout, or None for the faster one on the device.

    Rule.CELL becomes Rule.FUSED for a network that has no cells.
    """
    side = scale.side(model)
    noise = torch.randn(1, 3, side, side, generator=torch.Generator().manual_seed(seed))
    cells = CELLS[model] if rule is Rule.CELL else ()
    if rule is Rule.CELL and not cells:
        rule = Rule.FUSED
    name = f"{model.value}#{seed}"
    if by_channel is None:
        by_channel = device == "cuda"
    built = Built(model, scale, seed, device, by_channel and model in _BY_CHANNEL)
    return DispatchedNetwork(name, built, noise.to(device), rule, cells)


@final
@dataclass(frozen=True)
class Workload:
    """A workload: a number of instances of each network."""

    name: str
    counts: tuple[tuple[Model, int], ...]

    @property
    def size(self) -> int:
        """Number of networks."""
        return sum(count for _, count in self.counts)

    def limited(self, most: int) -> Workload:
        """Reduce to at most that many networks, in proportion; at least one of each remains."""
        if self.size <= most:
            return self
        return replace(
            self,
            counts=tuple(
                (model, max(1, round(count * most / self.size))) for model, count in self.counts
            ),
        )

    def sources(
        self, *, scale: Scale, device: str, rule: Rule = Rule.FUSED
    ) -> list[DispatchedNetwork]:
        """All instances, each with a seed of its own."""
        return [
            source(model, scale=scale, seed=seed, device=device, rule=rule)
            for model, count in self.counts
            for seed in range(count)
        ]


def _mix(name: str, dense: int, res: int, vgg: int, alex: int = 0) -> Workload:
    models = (Model.densenet201, Model.resnet152, Model.vgg16, Model.alexnet)
    counts = zip(models, (dense, res, vgg, alex), strict=True)
    return Workload(name, tuple((model, count) for model, count in counts if count))


def _cells(count: int) -> Workload:
    return Workload(f"nb201-{count}", ((Model.nas_bench_201, count),))


QS_WORKLOADS = {
    one.name: one
    for one in (
        _mix("alex15", 0, 0, 0, 15),
        _mix("vgg15", 0, 0, 15),
        _cells(8),
        _mix("res15", 0, 15, 0),
        _mix("dense15", 15, 0, 0),
        _mix("mix-8-0-8", 8, 0, 8),
        _mix("mix-5-5-5", 5, 5, 5),
        _mix("mix-8-8-0", 8, 8, 0),
        _cells(4),
        _cells(2),
        _cells(1),
    )
}
"""In the order of measurement; triples count DenseNet-201, ResNet-152 and VGG-16."""

MIXES = {
    one.name: one
    for one in (_mix("mix-8-8-2-2", 8, 8, 2, 2), _mix("mix-5-5-5-5", 5, 5, 5, 5), _cells(20))
}
"""Counts of DenseNet-201, ResNet-152, VGG-16 and AlexNet, for CPU and GPU together."""

QS_PUBLISHED = {
    "res15": (-0.21, -0.048),
    "vgg15": (-0.408, -0.228),
    "alex15": (-0.265, -0.226),
    "dense15": (-0.147, -0.45),
    "mix-8-0-8": (-0.278, None),
    "mix-5-5-5": (-0.15, -0.185),
    "mix-8-8-0": (-0.22, -0.16),
}
"""Published running time of Q-S relative to M-C and to S-C on a Jetson AGX Xavier (Lim & Kim, IEIE
58(10), 2021). For mix-8-0-8 the paper says only that S-C is about as fast as M-C."""
