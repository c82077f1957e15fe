"""Start networks of tasks other than classification: torchvision's, or its heads on timm's features."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from edgenas_core.types.errors import UserError
from nas.fit.starts.pretrained.libraries import library, timm
from nas.fit.training.network import HasHeads

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
        return _enlarge(self.classifier({"low": low, "high": features}), images)


@final
class TimmPixelClasses(HasHeads):
    """LR-ASPP's head on features of timm: those of an eighth of the side, and the last."""

    heads = ("classifier",)

    def __init__(self, name: str, classes: int, _side: int) -> None:
        super().__init__()
        sides = _features(name).feature_info.reduction()
        self.backbone = _features(name, out_indices=(sides.index(8), len(sides) - 1))
        head = library("torchvision.models.segmentation.lraspp").LRASPPHead
        self.classifier = head(*self.backbone.feature_info.channels(), classes, 128)

    def forward(self, images: Float[Tensor, "n 3 h w"]) -> Float[Tensor, "n classes h w"]:
        """Logits of each pixel, interpolated to the size of the images."""
        low, high = self.backbone(images)
        return _enlarge(self.classifier({"low": low, "high": high}), images)


def _enlarge(
    logits: Float[Tensor, "n classes *small"], images: Tensor
) -> Float[Tensor, "n classes h w"]:
    return nn.functional.interpolate(
        logits, images.shape[-2:], mode="bilinear", align_corners=False
    )


def _features(name: str, **settings: Any) -> Any:
    """A network of timm without weights that returns its features.

    Raises:
      UserError: if timm has none of this name, or no features of it.
    """
    try:
        return timm().create_model(name, pretrained=False, features_only=True, **settings)
    except (RuntimeError, ValueError, TypeError, AttributeError) as error:
        reason = (str(error) or repr(error)).splitlines()[0]
        raise UserError(f"timm has no features of {name}: {reason}") from error


@final
class _Levels(nn.Module):
    """Features of timm from a sixteenth of the side on, and smaller ones as SSDLite's."""

    def __init__(self, name: str, norm: Callable[..., nn.Module]) -> None:
        super().__init__()
        sides = _features(name).feature_info.reduction()
        levels = tuple(at for at, side in enumerate(sides) if side >= 16)
        self.body = _features(name, out_indices=levels)
        block = library("torchvision.models.detection.ssdlite")._extra_block  # noqa: SLF001 - has no other name
        channels = [*self.body.feature_info.channels(), 512, 256, 256, 128][:_LEVELS]
        pairs = list(pairwise(channels))[len(levels) - 1 :]
        self.extra = nn.ModuleList(block(*pair, norm) for pair in pairs)
        self.channels = channels

    def forward(self, images: Float[Tensor, "n 3 h w"]) -> dict[str, Tensor]:
        """Features by their number."""
        levels = list(self.body(images))
        for block in self.extra:
            levels.append(block(levels[-1]))
        return dict(zip(map(str, range(len(levels))), levels, strict=True))


_LEVELS = 6
"""Sizes of features that SSDLite has boxes of."""


def _timm_detector(name: str, classes: int, side: int) -> SingleShot:
    """SSDLite's head and anchors on features of timm."""
    norm = partial(nn.BatchNorm2d, eps=0.001)
    levels = _Levels(name, norm)
    boxes = library("torchvision.models.detection.anchor_utils").DefaultBoxGenerator
    generator = boxes([[2, 3]] * len(levels.channels), min_ratio=0.2, max_ratio=0.95)
    head = library("torchvision.models.detection.ssdlite").SSDLiteHead(
        levels.channels, generator.num_anchors_per_location(), classes, norm
    )
    model = SimpleNamespace(backbone=levels, head=head, anchor_generator=generator)
    return SingleShot(model, side)


@final
class SingleShot(HasHeads):
    """A detector of torchvision that gives logits and offsets for images of one side."""

    heads = ("head",)
    anchors: Tensor

    def __init__(self, model: Any, side: int) -> None:
        super().__init__()
        self.backbone, self.head = model.backbone, model.head
        if not isinstance(self.backbone, _Levels):
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

HEADS: dict[str, Callable[[str, int, int], HasHeads]] = {
    "lraspp": TimmPixelClasses,
    "ssdlite": _timm_detector,
}
"""Network on features of timm, by the head before the dash: lraspp-mobilenetv3_small_100."""


_MOMENTUM = 0.1


def is_start(name: str) -> bool:
    """Whether this is the name of a start network."""
    return name in STARTS or name.partition("-")[0] in HEADS


def start_named(name: str, classes: int, side: int) -> HasHeads:
    """Start network for a number of classes, with the same random initialisation every time.

    Its statistics of batch normalisation follow the last ten steps: torchvision's follow 30 and 100, and had
    mAP at 1 % after 150 steps where statistics of the batches had 98 %.

    Raises:
      UserError: if timm has no such features.
    """
    head, _, backbone = name.partition("-")
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        if head in HEADS:
            network = HEADS[head](backbone, classes, side)
        else:
            package, wrapped = STARTS[name]
            models = library(f"torchvision.models.{package}")
            model = getattr(models, name)(weights=None, weights_backbone=None, num_classes=classes)
            network = wrapped(model, side)
    for layer in network.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.momentum = _MOMENTUM
    return network
