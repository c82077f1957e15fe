"""A pretrained network before it is tuned: its classifier, its statistics, and what stays frozen."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch
from jaxtyping import Float, Float32
from numpy import ndarray
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from nas.fit.training.network import classifiers

STATISTICS_ON = 128
"""Images that batch normalisation takes its statistics from before a trained network is tuned."""

KEEPS_STATISTICS_TO = 2_500
"""Images of training up to which those statistics are kept.

By `benchmarks/results/own-images.md`, that gains 2 points on 1,199 photos, and loses 1 on 5,000; with the lower rate
of smaller batches (`Recipe.for_images`), it gains 8 on 127.
"""


def usual_fine_tuning(images: int) -> str:
    """Name of the recipe for so many training images: AdamW where statistics are kept, else SGD."""
    return "adamw" if images <= KEEPS_STATISTICS_TO else "fine_tuning"


def set_classifier(
    network: nn.Module,
    weight: Float32[ndarray, "classes features"],
    bias: Float32[ndarray, "classes"],
) -> None:
    """Begin with a linear layer that was fitted on frozen features, those of two classifiers side by side."""
    layers: list[Any] = [network.get_submodule(name) for name in classifiers(network)]
    parts = torch.from_numpy(weight).split([layer.weight[0].numel() for layer in layers], 1)
    with torch.no_grad():
        for layer, part in zip(layers, parts, strict=True):
            layer.weight.copy_(part.reshape(layer.weight.shape) * len(layers))  # they are averaged
            if layer.bias is not None:
                layer.bias.copy_(torch.from_numpy(bias))


def absorb_statistics(network: nn.Module, images: Float[Tensor, "n 3 h w"]) -> None:
    """Set the statistics of batch normalisation to those of these images; outputs stay as they are."""
    norms = [
        each
        for each in network.modules()
        if isinstance(each, _BatchNorm) and each.affine and each.track_running_stats
    ]
    seen: dict[Any, tuple[Tensor, Tensor]] = {}

    def note(norm: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        values = inputs[0].detach().transpose(0, 1).flatten(1)
        seen[norm] = values.mean(1), values.var(1)

    hooks = [norm.register_forward_pre_hook(note) for norm in norms]
    with torch.no_grad():
        network.eval()(images)
        for norm, (mean, variance) in seen.items():
            scale = norm.weight / torch.sqrt(norm.running_var + norm.eps)
            shift = norm.bias - norm.running_mean * scale
            norm.weight.copy_(scale * torch.sqrt(variance + norm.eps))
            norm.bias.copy_(shift + scale * mean)
            norm.running_mean.copy_(mean)
            norm.running_var.copy_(variance)
    for hook in hooks:
        hook.remove()


def freeze(network: nn.Module, tuned: Collection[str], *, keeps_statistics: bool = False) -> None:
    """Keep all but these parameters, and the statistics of the batch normalisations without any.

    Args:
      network: changed in place; later calls of `train()` do not undo it.
      tuned: names of the parameters that are trained.
      keeps_statistics: whether all batch normalisations keep theirs, trained ones too.
    """
    for name, parameter in network.named_parameters():
        parameter.requires_grad_(name in tuned)
    is_whole = all(parameter.requires_grad for parameter in network.parameters())
    for norm in network.modules():
        trains = is_whole or any(each.requires_grad for each in norm.parameters(recurse=False))
        if isinstance(norm, _BatchNorm) and (keeps_statistics or not trains):
            norm.eval()
            norm.train = lambda _mode=True, norm=norm: norm  # type: ignore[method-assign,misc]
