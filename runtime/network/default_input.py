"""An input that a network probably takes, for those who give none."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import torch
from torch import Tensor, nn
from torch.func import functional_call

_SIDES = (224, 32, 28)
"""Of images of ImageNet, CIFAR and MNIST; a network with adaptive pooling takes the first."""


def default_input(module: nn.Module) -> Tensor:
    """Random, with a batch of one: the first image of 224, 32 or 28 pixels that the module takes.

    The first convolution says how many channels, or the first linear layer how many values. What is
    tried computes nothing.

    Raises:
      ValueError: if the module takes none of them.
    """
    tensors = chain(module.named_parameters(), module.named_buffers())
    weightless = {name: tensor.to("meta") for name, tensor in tensors}
    for shape in _shapes(module):
        try:
            with torch.no_grad():
                functional_call(module, weightless, (torch.empty(shape, device="meta"),))
        except (RuntimeError, TypeError, ValueError, NotImplementedError):
            continue
        return torch.randn(shape)
    raise ValueError(
        f"what a {type(module).__name__} takes cannot be told; give it in inputs=[...]"
    )


def _shapes(module: nn.Module) -> Iterator[tuple[int, ...]]:
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d):
            yield from ((1, layer.in_channels, side, side) for side in _SIDES)
            return
        if isinstance(layer, nn.Linear):
            yield 1, layer.in_features
            return
