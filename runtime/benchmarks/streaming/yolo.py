"""YOLOv4 (Bochkovskiy, Wang & Liao, 2020), following its authors' configuration.

A backbone (CSPDarknet-53), a pyramid of pooled features, a neck that mixes three scales top-down
and bottom-up, and a head for each scale. 110 convolutions; boxes are not decoded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

_BLOCKS = (1, 2, 8, 8, 4)
"""Residual blocks of the backbone's stages."""


def _leaky() -> nn.Module:
    return nn.LeakyReLU(0.1)


def _conv(
    inputs: int, outputs: int, side: int, activation: Callable[[], nn.Module], stride: int = 1
) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, side, stride, side // 2, bias=False),
        nn.BatchNorm2d(outputs),
        activation(),
    )


@final
class YoloBlock(nn.Module):
    """A bottleneck of 1x1 and 3x3 convolutions with a shortcut."""

    def __init__(self, channels: int, inner: int) -> None:
        super().__init__()
        self.conv1 = _conv(channels, inner, 1, nn.Mish)
        self.conv2 = _conv(inner, channels, 3, nn.Mish)

    def forward(self, x: Float[Tensor, "n c h w"]) -> Float[Tensor, "n c h w"]:
        """Return a tensor of the same shape."""
        y: Tensor = x + self.conv2(self.conv1(x))
        return y


@final
class Stage(nn.Module):
    """Downsample by 2; one part of the channels goes through the blocks, the other bypasses them."""

    def __init__(self, inputs: int, outputs: int, blocks: int) -> None:
        super().__init__()
        first = blocks == 1  # the first stage keeps all channels in both parts
        part = outputs if first else outputs // 2
        self.down = _conv(inputs, outputs, 3, nn.Mish, stride=2)
        self.beside = _conv(outputs, part, 1, nn.Mish)
        self.into = _conv(outputs, part, 1, nn.Mish)
        self.blocks = nn.Sequential(
            *(YoloBlock(part, part // 2 if first else part) for _ in range(blocks))
        )
        self.out = _conv(part, part, 1, nn.Mish)
        self.join = _conv(2 * part, outputs, 1, nn.Mish)

    def forward(self, x: Float[Tensor, "n c h w"]) -> Float[Tensor, "n d i j"]:
        """Shape (n, inputs, h, w) to (n, outputs, h / 2, w / 2)."""
        x = self.down(x)
        beside = self.beside(x)
        y: Tensor = self.join(torch.cat([self.out(self.blocks(self.into(x))), beside], 1))
        return y


@final
class Pyramid(nn.Module):
    """Spatial pyramid pooling: maxima over 13x13, 9x9 and 5x5, concatenated with the input."""

    def __init__(self) -> None:
        super().__init__()
        self.pools = nn.ModuleList(nn.MaxPool2d(side, 1, side // 2) for side in (13, 9, 5))

    def forward(self, x: Float[Tensor, "n c h w"]) -> Float[Tensor, "n d h w"]:
        """Return four times as many channels."""
        return torch.cat([*(pool(x) for pool in self.pools), x], 1)


def _mixed(inputs: int, channels: int, convolutions: int) -> nn.Sequential:
    """Alternating 1x1 and 3x3 convolutions, the last one 1x1."""
    layers = []
    for i in range(convolutions):
        outputs, side = ((channels, 1), (2 * channels, 3))[i % 2]
        layers.append(_conv(inputs, outputs, side, _leaky))
        inputs = outputs
    return nn.Sequential(*layers)


def _head(channels: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        _conv(channels, 2 * channels, 3, _leaky), nn.Conv2d(2 * channels, outputs, 1)
    )


@final
class YOLOv4(nn.Module):
    """YOLOv4 for images whose sides are multiples of 32."""

    def __init__(self, *, width: int = 32, num_classes: int = 80) -> None:
        """Build the untrained network.

        `width` is the channels of the first convolution; all others but the last grow in
        proportion.
        """
        super().__init__()
        outputs = 3 * (num_classes + 5)
        self.stem = _conv(3, width, 3, nn.Mish)
        self.stages = nn.ModuleList(
            Stage(width * 2**i, width * 2 ** (i + 1), blocks) for i, blocks in enumerate(_BLOCKS)
        )
        small, middle, large = 4 * width, 8 * width, 16 * width  # of the three scales' 1x1
        self.before = _mixed(2 * large, large, 3)
        self.pyramid = Pyramid()
        self.after = _mixed(4 * large, large, 3)
        self.lift_middle = nn.Sequential(
            _conv(large, middle, 1, _leaky), nn.Upsample(scale_factor=2)
        )
        self.side_middle = _conv(large, middle, 1, _leaky)
        self.up_middle = _mixed(large, middle, 5)
        self.lift_small = nn.Sequential(
            _conv(middle, small, 1, _leaky), nn.Upsample(scale_factor=2)
        )
        self.side_small = _conv(middle, small, 1, _leaky)
        self.up_small = _mixed(middle, small, 5)
        self.head_small = _head(small, outputs)
        self.sink_middle = _conv(small, middle, 3, _leaky, stride=2)
        self.down_middle = _mixed(large, middle, 5)
        self.head_middle = _head(middle, outputs)
        self.sink_large = _conv(middle, large, 3, _leaky, stride=2)
        self.down_large = _mixed(2 * large, large, 5)
        self.head_large = _head(large, outputs)

    def forward(self, images: Float[Tensor, "n 3 h w"]) -> Float[Tensor, "n outputs places"]:
        """Return the head outputs of the three scales, h/8 * w/8, h/16 * w/16 and h/32 * w/32, joined."""
        scales = []
        x: Tensor = self.stem(images)
        for stage in self.stages:
            x = stage(x)
            scales.append(x)
        _, _, small, middle, large = scales
        large = self.after(self.pyramid(self.before(large)))
        middle = self.up_middle(torch.cat([self.side_middle(middle), self.lift_middle(large)], 1))
        small = self.up_small(torch.cat([self.side_small(small), self.lift_small(middle)], 1))
        small_boxes: Tensor = self.head_small(small)
        middle = self.down_middle(torch.cat([self.sink_middle(small), middle], 1))
        middle_boxes: Tensor = self.head_middle(middle)
        large = self.down_large(torch.cat([self.sink_large(middle), large], 1))
        boxes = (small_boxes, middle_boxes, self.head_large(large))
        return torch.cat([torch.flatten(box, 2) for box in boxes], 2)
