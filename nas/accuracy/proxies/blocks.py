"""The consecutive blocks of a network, whose features AZ-NAS compares."""

from __future__ import annotations

from collections.abc import Iterator

from jaxtyping import Float
from torch import Tensor, nn


def blocks(network: nn.Module) -> list[nn.Module]:
    """Modules that a network applies one after another, the stem first.

    They are its direct children that hold a convolution. A `ModuleList` stands for all of its
    items; so does a `Sequential` of which several items hold convolutions.
    """
    return list(_opened(network))


def block_features(network: nn.Module, images: Float[Tensor, "n c h w"]) -> list[Tensor]:
    """Feature maps after each block, in the order of the forward pass."""
    features: list[Tensor] = []

    def keep(_block: nn.Module, _inputs: tuple[Tensor, ...], output: Tensor) -> None:
        if output.ndim == images.ndim:
            features.append(output)

    hooks = [block.register_forward_hook(keep) for block in blocks(network)]
    try:
        network(images)
    finally:
        for hook in hooks:
            hook.remove()
    return features


def _opened(module: nn.Module) -> Iterator[nn.Module]:
    for child in module.children():
        if isinstance(child, nn.ModuleList):
            yield from child
        elif isinstance(child, nn.Sequential) and sum(map(_has_convolution, child)) > 1:
            yield from _opened(child)
        elif _has_convolution(child):
            yield child


def _has_convolution(module: nn.Module) -> bool:
    return any(isinstance(one, nn.Conv2d) for one in module.modules())
