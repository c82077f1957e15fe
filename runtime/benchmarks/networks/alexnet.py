"""AlexNet in its one-tower form (Krizhevsky, "One weird trick ...", arXiv 1404.5997, 2014).

Modules have torchvision's names, so that its checkpoints load.
"""

from __future__ import annotations

from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn


@final
class AlexNet(nn.Module):
    """Five convolutions and three linear layers, for images of 63 pixels a side or more."""

    def __init__(self, *, width: int = 64, num_classes: int = 1000) -> None:
        """Build the untrained network.

        `width` is the channels of the first convolution; every other layer grows in proportion.
        """
        super().__init__()
        hidden = 64 * width
        self.features = nn.Sequential(
            nn.Conv2d(3, width, 11, stride=4, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(3, stride=2),
            nn.Conv2d(width, 3 * width, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(3, stride=2),
            nn.Conv2d(3 * width, 6 * width, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(6 * width, 4 * width, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(4 * width, 4 * width, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(3, stride=2),
        )
        self.avgpool = nn.AdaptiveAvgPool2d(6)
        self.classifier = nn.Sequential(
            nn.Dropout(),
            nn.Linear(4 * width * 6 * 6, hidden),
            nn.ReLU(),
            nn.Dropout(),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Linear(hidden, num_classes),
        )

    def forward(self, images: Float[Tensor, "n 3 h w"]) -> Float[Tensor, "n classes"]:
        """Return the logits."""
        x = self.avgpool(self.features(images))
        logits: Tensor = self.classifier(torch.flatten(x, 1))
        return logits
