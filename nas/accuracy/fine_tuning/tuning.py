"""A pretrained network before it is tuned: its classifier, its statistics, and what stays frozen."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch
from jaxtyping import Float, Float32
from numpy import ndarray
from torch import Tensor, nn


def set_classifier(
    network: nn.Module,
    weight: Float32[ndarray, "classes features"],
    bias: Float32[ndarray, "classes"],
) -> None:
    """Begin with a linear layer that was fitted on frozen features.

    A classifier that sees other features than those before timm's stays as it is.
    """
    for layer in network.modules():  # some have two, whose answers are averaged
        if isinstance(layer, nn.Linear) and layer.weight.shape == weight.shape:
            with torch.no_grad():
                layer.weight.copy_(torch.from_numpy(weight))
                layer.bias.copy_(torch.from_numpy(bias))


def absorb_statistics(network: nn.Module, images: Float[Tensor, "n 3 h w"]) -> None:
    """Set the statistics of batch normalisation to those of these images; outputs stay as they are."""
    norms = [module for module in network.modules() if isinstance(module, nn.BatchNorm2d)]
    seen: dict[Any, tuple[Tensor, Tensor]] = {}

    def note(norm: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        values = inputs[0].detach()
        seen[norm] = values.mean((0, 2, 3)), values.var((0, 2, 3))

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


def freeze(network: nn.Module, tuned: Collection[str]) -> None:
    """Keep all but these parameters, and the statistics of the batch normalisations without any."""
    for name, parameter in network.named_parameters():
        parameter.requires_grad_(name in tuned)
    is_whole = all(parameter.requires_grad for parameter in network.parameters())
    for norm in network.modules():
        trains = any(each.requires_grad for each in norm.parameters(recurse=False))
        if isinstance(norm, nn.BatchNorm2d) and not is_whole and not trains:
            norm.eval()
            norm.train = lambda _mode=True, norm=norm: norm  # type: ignore[method-assign,misc]
