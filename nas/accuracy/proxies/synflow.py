"""Synaptic flow (Tanaka et al., NeurIPS 2020; as a proxy: Abdelfattah et al., ICLR 2021)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Float
from torch import Tensor, nn

_NORMALISATIONS = (nn.BatchNorm2d, nn.GroupNorm, nn.LayerNorm)


def synflow(network: nn.Module, images: Float[Tensor, "n c h w"]) -> float:
    """Logarithm of the sum over weights of |w dR/dw|; -inf where nothing flows.

    R is the sum of the outputs for an image of ones, with the weights' absolute values and without
    normalisation.
    """
    with flow(network, images):
        total = sum(
            float((w.detach() * w.grad).sum()) for w in network.parameters() if w.grad is not None
        )
    return math.log(total) if total > 0 else -math.inf


@contextmanager
def flow(network: nn.Module, images: Float[Tensor, "n c h w"]) -> Iterator[None]:
    """Hold the gradients of R in the weights, which are absolute values in double precision.

    Weights, precision and gradients are as before when the block ends.
    """
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    precision = images.dtype
    hooks = [
        module.register_forward_hook(lambda _module, inputs, _output: inputs[0])
        for module in network.modules()
        if isinstance(module, _NORMALISATIONS)
    ]
    network.eval().double().zero_grad(set_to_none=True)
    try:
        with torch.no_grad():
            for weight in network.parameters():
                weight.abs_()
        network(torch.ones_like(images[:1], dtype=torch.float64)).sum().backward()
        yield
    finally:
        for hook in hooks:
            hook.remove()
        network.to(precision).zero_grad(set_to_none=True)
        network.load_state_dict(before)
