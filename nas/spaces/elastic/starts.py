"""Networks of torchvision that a task other than classification begins with."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nas.accuracy.training.classifiers import HasHeads
from nas.spaces.pretrained.timm_library import library

_COUNTED = re.compile(r"(backbone\.features\.1\.0\.)(\d+)\.")


@final
class PixelClasses(HasHeads):
    """A network of torchvision that gives each pixel logits; its weights have torchvision's names."""

    heads = ("classifier",)

    def __init__(self, model: Any, _side: int) -> None:
        super().__init__()
        self.backbone, self.classifier = nn.Sequential(*model.backbone.values()), model.classifier
        names = [model.backbone.return_layers.get(name) for name in model.backbone]
        self._low = names.index("low")

    def forward(self, images: Float[Tensor, "n 3 h w"]) -> Float[Tensor, "n classes h w"]:
        """Logits of each pixel, interpolated to the size of the images."""
        features, low = images, images
        for number, layer in enumerate(self.backbone):
            features = layer(features)
            low = features if number == self._low else low
        logits = self.classifier({"low": low, "high": features})
        return nn.functional.interpolate(
            logits, images.shape[-2:], mode="bilinear", align_corners=False
        )


@final
class SingleShot(HasHeads):
    """A detector of torchvision that gives logits and offsets for images of one side."""

    heads = ("head",)
    anchors: Tensor

    def __init__(self, model: Any, side: int) -> None:
        super().__init__()
        self.backbone, self.head = model.backbone, model.head
        last = self.backbone.features[1]
        last[0] = nn.Sequential(*last[0])  # torchvision counts a part of a block from 1
        boxes = library("torchvision.models.detection.image_list")
        images = torch.zeros(1, 3, side, side)
        with torch.no_grad():
            features = list(self.backbone.eval()(images).values())
            (anchors,) = model.anchor_generator(boxes.ImageList(images, [(side, side)]), features)
        self.register_buffer("anchors", anchors)

    def forward(self, images: Float[Tensor, "n 3 h w"]) -> Float[Tensor, "n anchors classes_and_8"]:
        """Logits, offsets and the anchor itself: left, top, right, bottom, in pixels."""
        answers = self.head(list(self.backbone(images).values()))
        offsets = answers["bbox_regression"]
        anchors = self.anchors.expand(offsets.shape)
        return torch.cat([answers["cls_logits"], offsets, anchors], -1)


def with_own_names(network: nn.Module, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Weights of a file of torchvision by the names that a start gives them."""
    numbers = {part[2] for part in map(_COUNTED.match, weights) if part}
    if not isinstance(network, SingleShot) or "0" in numbers:
        return weights
    return {
        _COUNTED.sub(lambda part: f"{part[1]}{int(part[2]) - 1}.", name): tensor
        for name, tensor in weights.items()
    }


STARTS: dict[str, tuple[str, Callable[[Any, int], HasHeads]]] = {
    "lraspp_mobilenet_v3_large": ("segmentation", PixelClasses),
    "ssdlite320_mobilenet_v3_large": ("detection", SingleShot),
}
"""Package of torchvision.models and wrapper, by the name that torchvision gives a network."""


def start_named(name: str, classes: int, side: int) -> HasHeads:
    """A network of torchvision for so many classes with new weights, always the same ones."""
    package, wrapped = STARTS[name]
    models = library(f"torchvision.models.{package}")
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        model = getattr(models, name)(weights=None, weights_backbone=None, num_classes=classes)
    return wrapped(model, side)
