"""The toy networks: a stem, a chain of depthwise-separable blocks, a classifier."""

import torch
from torch import nn


class Block(nn.Module):
    """A depthwise convolution between two 1x1 convolutions, with a skip where shapes agree."""

    def __init__(self, inputs, outputs, kernel, expansion, activation):
        super().__init__()
        hidden = inputs * expansion
        self.widen = nn.Conv2d(inputs, hidden, 1)
        self.depthwise = nn.Conv2d(hidden, hidden, kernel, padding=kernel // 2, groups=hidden)
        self.activation = {"relu": nn.ReLU(), "silu": nn.SiLU(), "none": nn.Identity()}[activation]
        self.narrow = nn.Conv2d(hidden, outputs, 1)
        self.skips = inputs == outputs

    def forward(self, x):
        y = self.narrow(self.activation(self.depthwise(self.widen(x))))
        return x + y if self.skips else y


class ToyNetwork(nn.Module):
    """Images (n, 3, h, w) to logits (n, classes); a block is (kernel, width, expansion, activation)."""

    def __init__(self, blocks, classes):
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1)
        widths = [4, *(width for _, width, _, _ in blocks)]
        self.blocks = nn.Sequential(
            *(
                Block(inputs, width, kernel, expansion, activation)
                for inputs, (kernel, width, expansion, activation) in zip(
                    widths, blocks, strict=False
                )
            )
        )
        self.classifier = nn.Linear(widths[-1], classes)

    def forward(self, images):
        x = self.blocks(self.stem(images)).mean((2, 3))
        return self.classifier(torch.flatten(x, 1))
