"""The networks of the experiments, and the published workloads that are made of them.

Weights are random: times do not depend on them. Instances of a network have weights of their own,
as networks of different users would.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from typing import final

import torch
from torch import Tensor, nn

from runtime.experiments.dispatch.prepared import Source
from runtime.network.decompose import Rule
from runtime.network.models.alexnet import AlexNet
from runtime.network.models.densenet import DenseLayer, DenseNet
from runtime.network.models.nas_bench_201 import Cell, CellNetwork, ResidualBlock
from runtime.network.models.resnet import Block, ResNet
from runtime.network.models.vgg import VGG


class Model(Enum):
    """A network of the published workloads, or of NAS-Bench-201."""

    densenet201 = "densenet201"
    resnet152 = "resnet152"
    vgg16 = "vgg16"
    alexnet = "alexnet"
    nas_bench_201 = "nas_bench_201"
    nas_bench_201_mixed = "nas_bench_201_mixed"


OPERATIONS = ("nor_conv_3x3",) * 6
"""Of the NAS-Bench-201 network: the slowest of the space."""

MIXED_OPERATIONS = (
    "nor_conv_3x3",
    "avg_pool_3x3",
    "nor_conv_1x1",
    "skip_connect",
    "nor_conv_3x3",
    "none",
)
"""Of another, nearer to the middle of the space: each operation once, the convolution twice."""

SMALL = (Model.nas_bench_201, Model.nas_bench_201_mixed)
"""Networks for images of 32 pixels."""

CELLS: dict[Model, tuple[type[nn.Module], ...]] = {
    Model.densenet201: (DenseLayer,),
    Model.resnet152: (Block,),
    Model.vgg16: (),
    Model.alexnet: (),
    Model.nas_bench_201: (Cell, ResidualBlock),
    Model.nas_bench_201_mixed: (Cell, ResidualBlock),
}
"""The modules that are a cell; the plain chains have none."""


@final
@dataclass(frozen=True)
class Scale:
    """How large networks and images are; 1 is as published."""

    width: float = 1.0
    """Of every layer's channels."""
    image: float = 1.0
    """Of the images' sides, 224 pixels and for NAS-Bench-201 32. AlexNet and VGG keep theirs: of
    another, their pooling to a fixed size could not be written as ONNX."""

    def of(self, full: int, *, least: int = 1) -> int:
        """A number of channels."""
        return max(least, round(full * self.width))

    def side(self, model: Model) -> int:
        """Of an image, pixels; multiples of 4 for NAS-Bench-201."""
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
"""Networks that an H200 runs quicker with channels innermost, alone and together
(`benchmarks/gpu_sharing.py`): their convolutions need not be turned there and back."""

_IMAGE_DIMS = 4


@final
class Built(nn.Module):
    """A network that travels to another process as its recipe, not as its weights."""

    def __init__(
        self, model: Model, scale: Scale, seed: int, device: str, by_channel: bool
    ) -> None:
        """Builds it on a device; equal arguments give equal weights.

        By channel, weights lie as tensor cores read them, and so will what is computed with them.
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
) -> Source:
    """One instance of a network, with its input on the same device; made once.

    By channel or not: None for what is quicker on the device.

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
    return Source(name, built, noise.to(device), rule, cells)


@final
@dataclass(frozen=True)
class Workload:
    """So many instances of each network."""

    name: str
    counts: tuple[tuple[Model, int], ...]

    @property
    def size(self) -> int:
        """Networks."""
        return sum(count for _, count in self.counts)

    def limited(self, most: int) -> Workload:
        """The same with no more than so many networks, in proportion; each keeps one at least."""
        if self.size <= most:
            return self
        return replace(
            self,
            counts=tuple(
                (model, max(1, round(count * most / self.size))) for model, count in self.counts
            ),
        )

    def sources(self, *, scale: Scale, device: str, rule: Rule = Rule.FUSED) -> list[Source]:
        """Every instance of a network with a seed of its own."""
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
"""In the order in which they are measured; the triples are of DenseNet-201, ResNet-152, VGG-16."""

MIXES = {
    one.name: one
    for one in (_mix("mix-8-8-2-2", 8, 8, 2, 2), _mix("mix-5-5-5-5", 5, 5, 5, 5), _cells(20))
}
"""Of DenseNet-201, ResNet-152, VGG-16 and AlexNet, for the CPU and the GPU together."""

QS_PUBLISHED = {
    "res15": (-0.21, -0.048),
    "vgg15": (-0.408, -0.228),
    "alex15": (-0.265, -0.226),
    "dense15": (-0.147, -0.45),
    "mix-8-0-8": (-0.278, None),
    "mix-5-5-5": (-0.15, -0.185),
    "mix-8-8-0": (-0.22, -0.16),
}
"""Running time of Q-S against M-C and against S-C on a Jetson AGX Xavier, as the queue-stream source
prints it (Lim & Kim, IEIE 58(10), 2021); of mix-8-0-8 it says only that S-C is about as M-C."""

COSCHEDULE_PUBLISHED = {
    "densenet201": (-0.395, -0.466),
    "resnet152": (-0.357, -0.397),
    "vgg16": (-0.428, -0.441),
    "alexnet": (-0.274, -0.315),
    "mixes of 20": (-0.38, -0.70),
}
"""Co-scheduling against a process a network on the GPU alone, from and to, of the same authors."""
