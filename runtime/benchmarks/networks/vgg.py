"""VGG (Simonyan & Zisserman, ICLR 2015, table 1), without batch normalisation.

Modules have torchvision's names, so that its checkpoints load.
"""

from __future__ import annotations

from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

_CONVOLUTIONS = {
    11: (1, 1, 2, 2, 2),
    13: (2, 2, 2, 2, 2),
    16: (2, 2, 3, 3, 3),
    19: (2, 2, 4, 4, 4),
}


@final
class VGG(nn.Module):
    """Five stages of 3x3 convolutions, a pool after each, and three linear layers.

    For images of 32 pixels a side or more.
    """

    def __init__(self, depth: int = 16, *, width: int = 64, num_classes: int = 1000) -> None:
        """Build the untrained network.

        The depth is 11, 13, 16 or 19. `width` is the channels of the first stage; every other layer
        grows in proportion.

        Raises:
          ValueError: if the paper has no network of this depth.
        """
        super().__init__()
        if depth not in _CONVOLUTIONS:
            raise ValueError(f"no VGG has {depth} layers, but {list(_CONVOLUTIONS)} have")
        layers: list[nn.Module] = []
        channels = 3
        for stage, convolutions in enumerate(_CONVOLUTIONS[depth]):
            outputs = width * min(2**stage, 8)
            for _ in range(convolutions):
                layers += [nn.Conv2d(channels, outputs, 3, padding=1), nn.ReLU()]
                channels = outputs
            layers.append(nn.MaxPool2d(2))
        hidden = 64 * width
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(7)
        self.classifier = nn.Sequential(
            nn.Linear(channels * 7 * 7, hidden),
            nn.ReLU(),
            nn.Dropout(),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Dropout(),
            nn.Linear(hidden, num_classes),
        )

    def forward(self, images: Float[Tensor, "n 3 h w"]) -> Float[Tensor, "n classes"]:
        """Return the logits."""
        x = self.avgpool(self.features(images))
        logits: Tensor = self.classifier(torch.flatten(x, 1))
        return logits
