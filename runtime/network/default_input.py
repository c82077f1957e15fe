"""A random input of a shape that a network accepts, for callers who give no input."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import torch
from torch import Tensor, nn
from torch.func import functional_call

_SIDES = (224, 32, 28)
"""Image sides of ImageNet, CIFAR and MNIST; a network with adaptive pooling accepts the first."""


def default_input(module: nn.Module) -> Tensor:
    """Return a random input of batch size 1: the first of 224, 32 and 28 pixels that works.

    The number of channels or values is that of the first convolution or linear layer. Shapes are
    tried on the meta device, without computing anything.

    Raises:
      ValueError: if the module accepts none of these shapes.
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
        f"no input shape for {type(module).__name__} was found; pass an example in inputs=[...]"
    )


def _shapes(module: nn.Module) -> Iterator[tuple[int, ...]]:
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d):
            yield from ((1, layer.in_channels, side, side) for side in _SIDES)
            return
        if isinstance(layer, nn.Linear):
            yield 1, layer.in_features
            return
