"""The networks of the space: inverted residual blocks with elastic kernel, expansion and depth."""

import torch
from torch import Tensor, nn


class ConvNorm(nn.Sequential):
    """Convolution without bias, batch normalisation, and an activation if there is one."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int,
        *,
        stride: int = 1,
        groups: int = 1,
        activation: type[nn.Module] | None = None,
    ) -> None:
        super().__init__(
            nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
            nn.BatchNorm2d(outputs),
            *([] if activation is None else [activation()]),
        )


class SqueezeExcite(nn.Module):
    """Scales each channel by a number in [0, 1] that depends on the means of all channels."""

    def __init__(self, channels: int, inside: int) -> None:
        super().__init__()
        self.mean = nn.AdaptiveAvgPool2d(1)
        self.reduce = nn.Conv2d(channels, inside, 1)
        self.relu = nn.ReLU()
        self.expand = nn.Conv2d(inside, channels, 1)
        self.gate = nn.Hardsigmoid()

    def forward(self, x: Tensor) -> Tensor:
        """Scale x (n, channels, h, w)."""
        scale: Tensor = self.gate(self.expand(self.relu(self.reduce(self.mean(x)))))
        return x * scale


class Block(nn.Module):
    """Expands by 1x1, filters each channel, projects by 1x1; the input is added if shapes agree."""

    def __init__(self, setting: tuple[int, int, int, int, int, int, bool]) -> None:
        super().__init__()
        inputs, hidden, outputs, kernel, stride, squeeze, hard_swish = setting
        activation = nn.Hardswish if hard_swish else nn.ReLU
        layers: list[nn.Module] = []
        if hidden != inputs:
            layers.append(ConvNorm(inputs, hidden, 1, activation=activation))
        layers.append(
            ConvNorm(hidden, hidden, kernel, stride=stride, groups=hidden, activation=activation)
        )
        if squeeze:
            layers.append(SqueezeExcite(hidden, squeeze))
        layers.append(ConvNorm(hidden, outputs, 1))
        self.layers = nn.Sequential(*layers)
        self.skips = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        """Map x (n, inputs, h, w) to (n, outputs, h / stride, w / stride)."""
        y: Tensor = self.layers(x)
        return x + y if self.skips else y


class MobileNet(nn.Module):
    """Images (n, 3, h, w) to logits (n, classes).

    A block is (inputs, hidden, outputs, kernel, stride, squeeze, hard_swish).
    """

    def __init__(
        self,
        channels: int,
        blocks: list[tuple[int, int, int, int, int, int, bool]],
        final: int,
        features: int,
        classes: int,
    ) -> None:
        super().__init__()
        self.stem = ConvNorm(channels, blocks[0][0], 3, stride=2, activation=nn.Hardswish)
        self.blocks = nn.Sequential(*map(Block, blocks))
        self.final = ConvNorm(blocks[-1][2], final, 1, activation=nn.Hardswish)
        self.mean = nn.AdaptiveAvgPool2d(1)
        self.features = nn.Sequential(nn.Conv2d(final, features, 1, bias=False), nn.Hardswish())
        self.classifier = nn.Sequential(nn.Dropout(0.1), nn.Linear(features, classes))

    def forward(self, images: Tensor) -> Tensor:
        """Compute logits."""
        x = self.final(self.blocks(self.stem(images)))
        x = self.features(self.mean(x))
        logits: Tensor = self.classifier(torch.flatten(x, 1))
        return logits
