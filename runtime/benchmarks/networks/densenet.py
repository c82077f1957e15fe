"""DenseNet-BC (Huang et al., CVPR 2017, table 1).

Modules have torchvision's names.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

_LAYERS = {
    121: (6, 12, 24, 16),
    169: (6, 12, 32, 32),
    201: (6, 12, 48, 32),
}


@final
class DenseLayer(nn.Module):
    """A 1x1 convolution to four times the growth, a 3x3 one to the growth."""

    def __init__(self, channels: int, growth: int) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv1 = nn.Conv2d(channels, 4 * growth, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(4 * growth)
        self.conv2 = nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)
        self.relu = nn.ReLU()

    def forward(self, x: Float[Tensor, "n c h w"]) -> Float[Tensor, "n growth h w"]:
        """Return the new features only."""
        y = self.conv1(self.relu(self.norm1(x)))
        z: Tensor = self.conv2(self.relu(self.norm2(y)))
        return z


@final
class DenseBlock(nn.Module):
    """Layers whose input is the block's input and the output of every earlier layer."""

    def __init__(self, layers: int, channels: int, growth: int) -> None:
        super().__init__()
        for i in range(layers):
            self.add_module(f"denselayer{i + 1}", DenseLayer(channels + i * growth, growth))

    def forward(self, x: Float[Tensor, "n c h w"]) -> Float[Tensor, "n d h w"]:
        """Shape (n, channels, h, w) to (n, channels + layers * growth, h, w)."""
        features = [x]
        for layer in self.children():
            features.append(layer(torch.cat(features, 1)))
        return torch.cat(features, 1)


@final
class DenseNet(nn.Module):
    """A stem and four dense blocks, with a transition that halves channels and sides between them.

    For images of 32 pixels a side or more.
    """

    def __init__(self, depth: int = 121, *, growth: int = 32, num_classes: int = 1000) -> None:
        """Build the untrained network.

        The depth is 121, 169 or 201. `growth` is k in the paper, the channels that each layer adds;
        the stem has twice as many.

        Raises:
          ValueError: if the paper has no network of this depth.
        """
        super().__init__()
        if depth not in _LAYERS:
            raise ValueError(f"no DenseNet has {depth} layers, but {list(_LAYERS)} have")
        channels = 2 * growth
        features: OrderedDict[str, nn.Module] = OrderedDict(
            conv0=nn.Conv2d(3, channels, 7, stride=2, padding=3, bias=False),
            norm0=nn.BatchNorm2d(channels),
            relu0=nn.ReLU(),
            pool0=nn.MaxPool2d(3, stride=2, padding=1),
        )
        for block, layers in enumerate(_LAYERS[depth], start=1):
            if block > 1:
                features[f"transition{block - 1}"] = nn.Sequential(
                    OrderedDict(
                        norm=nn.BatchNorm2d(channels),
                        relu=nn.ReLU(),
                        conv=nn.Conv2d(channels, channels // 2, 1, bias=False),
                        pool=nn.AvgPool2d(2),
                    )
                )
                channels //= 2
            features[f"denseblock{block}"] = DenseBlock(layers, channels, growth)
            channels += layers * growth
        features["norm5"] = nn.BatchNorm2d(channels)
        self.features = nn.Sequential(features)
        self.relu = nn.ReLU()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(channels, num_classes)

    def forward(self, images: Float[Tensor, "n 3 h w"]) -> Float[Tensor, "n classes"]:
        """Return the logits."""
        x = self.avgpool(self.relu(self.features(images)))
        logits: Tensor = self.classifier(torch.flatten(x, 1))
        return logits
