"""ResNet (He et al., CVPR 2016, table 1).

As in torchvision, a bottleneck strides in its 3x3 convolution (the paper: in its first 1x1).
Modules have torchvision's names, so that its checkpoints load.
"""

from __future__ import annotations

from itertools import pairwise
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

_BLOCKS = {
    18: (2, 2, 2, 2),
    34: (3, 4, 6, 3),
    50: (3, 4, 6, 3),
    101: (3, 4, 23, 3),
    152: (3, 8, 36, 3),
}
_BOTTLENECK_FROM = 50


@final
class ResNetBlock(nn.Module):
    """Convolutions with a shortcut: two of 3x3, or a bottleneck of 1x1, 3x3, 1x1."""

    def __init__(self, channels: tuple[int, ...], kernels: tuple[int, ...], stride: int) -> None:
        """Build the untrained network.

        `channels` are those of the input and of each convolution's output; `stride` is that of the
        first 3x3 convolution and of the shortcut.
        """
        super().__init__()
        self.depth = len(kernels)
        strided = kernels.index(3)
        for i, ((inputs, outputs), kernel) in enumerate(
            zip(pairwise(channels), kernels, strict=True)
        ):
            step = stride if i == strided else 1
            convolution = nn.Conv2d(inputs, outputs, kernel, step, kernel // 2, bias=False)
            self.add_module(f"conv{i + 1}", convolution)
            self.add_module(f"bn{i + 1}", nn.BatchNorm2d(outputs))
        self.relu = nn.ReLU()
        self.downsample = (
            nn.Identity()
            if stride == 1 and channels[0] == channels[-1]
            else nn.Sequential(
                nn.Conv2d(channels[0], channels[-1], 1, stride, bias=False),
                nn.BatchNorm2d(channels[-1]),
            )
        )

    def forward(self, x: Float[Tensor, "n c h w"]) -> Float[Tensor, "n d i j"]:
        """Shape (n, channels[0], h, w) to (n, channels[-1], h / stride, w / stride)."""
        y = x
        for i in range(1, self.depth + 1):
            y = self.get_submodule(f"bn{i}")(self.get_submodule(f"conv{i}")(y))
            if i < self.depth:
                y = self.relu(y)
        z: Tensor = self.relu(y + self.downsample(x))
        return z


@final
class ResNet(nn.Module):
    """A stem, four stages of blocks, a classifier; for images of 32 pixels a side or more."""

    def __init__(self, depth: int = 50, *, width: int = 64, num_classes: int = 1000) -> None:
        """Build the untrained network.

        The depth is 18, 34, 50, 101 or 152. `width` is the channels of the stem; every other layer
        grows in proportion.

        Raises:
          ValueError: if the paper has no network of this depth.
        """
        super().__init__()
        if depth not in _BLOCKS:
            raise ValueError(f"no ResNet has {depth} layers, but {list(_BLOCKS)} have")
        self.conv1 = nn.Conv2d(3, width, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU()
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        channels = width
        for stage, blocks in enumerate(_BLOCKS[depth]):
            inner = width * 2**stage
            layers = []
            for i in range(blocks):
                stride = 2 if stage > 0 and i == 0 else 1
                if depth < _BOTTLENECK_FROM:
                    layers.append(ResNetBlock((channels, inner, inner), (3, 3), stride))
                    channels = inner
                else:
                    layers.append(
                        ResNetBlock((channels, inner, inner, 4 * inner), (1, 3, 1), stride)
                    )
                    channels = 4 * inner
            self.add_module(f"layer{stage + 1}", nn.Sequential(*layers))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(channels, num_classes)

    def forward(self, images: Float[Tensor, "n 3 h w"]) -> Float[Tensor, "n classes"]:
        """Return the logits."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(images))))
        for stage in range(1, 5):
            x = self.get_submodule(f"layer{stage}")(x)
        logits: Tensor = self.fc(torch.flatten(self.avgpool(x), 1))
        return logits
