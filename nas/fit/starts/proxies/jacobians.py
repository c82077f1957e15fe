"""Two proxies of a network's Jacobians: jacov of the whole, trainability of its blocks.

Jacov is from Mellor et al. (arXiv 2006.04647, version 1), trainability from AZ-NAS (Lee & Ham, CVPR
2024, section 3.2), in whose code, too, the weights are drawn anew (Kaiming, normal, fan-in).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn

SMALL = 1e-8
_RIDGE = 1e-5


def jacov(network: nn.Module, images: Float[Tensor, "n c h w"]) -> float:
    """-sum(log(v + k) + 1 / (v + k)), v the eigenvalues of the correlations of input gradients.

    -inf where an image has no gradient.
    """
    network.train()
    x = images.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(network(x).sum(), x)
    correlations = torch.corrcoef(gradient.flatten(1).double())
    if not bool(correlations.isfinite().all()):
        return -math.inf
    values = torch.linalg.eigvalsh(correlations) + _RIDGE
    return -float((values.log() + 1 / values).sum())


def trainability(network: nn.Module, images: Float[Tensor, "n c h w"]) -> float:
    """Mean over blocks of 2 - s - 1/s; -inf where a block is the identity.

    s is the spectral norm of the block's Jacobian, estimated by one Rademacher vector (eq. 7 to 9).
    """
    draw_weights(network)
    features = block_features(network.train(), images)
    products = []
    for before, after in pairwise(features):
        signs = torch.randint_like(after, 2) * 2 - 1
        (back,) = torch.autograd.grad(
            after, before, signs, allow_unused=True, materialize_grads=True, retain_graph=True
        )
        if back.shape == signs.shape and torch.equal(back, signs):  # the identity
            return -math.inf
        shrunk = -(-before.shape[-1] // after.shape[-1])
        missing = shrunk * after.shape[-1] - before.shape[-1]  # of an odd side that is halved
        back = nn.functional.pad(back, (0, missing, 0, missing))
        into = nn.functional.pixel_unshuffle(back, shrunk).movedim(1, -1).flatten(0, -2)
        out = signs.movedim(1, -1).flatten(0, -2)
        products.append(into.T @ out / len(out))
    if not products:
        return -math.inf
    # decompositions of small matrices are slow on a GPU
    s = torch.stack([torch.linalg.matrix_norm(product.cpu(), ord=2) for product in products])
    mean = float((2 - s - 1 / (s + SMALL)).mean())
    return mean if math.isfinite(mean) else -math.inf


def draw_weights(network: nn.Module) -> None:
    """Draw the weights of convolutions and linear layers anew."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)


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


def blocks(module: nn.Module) -> Iterator[nn.Module]:
    """Modules that a network applies one after another, the stem first.

    They are its direct children that hold a convolution. A `ModuleList` stands for all of its
    items; so does a `Sequential` of which several items hold convolutions.
    """
    for child in module.children():
        if isinstance(child, nn.ModuleList):
            yield from child
        elif isinstance(child, nn.Sequential) and sum(map(_has_convolution, child)) > 1:
            yield from blocks(child)
        elif _has_convolution(child):
            yield child


def _has_convolution(module: nn.Module) -> bool:
    return any(isinstance(part, nn.Conv2d) for part in module.modules())
