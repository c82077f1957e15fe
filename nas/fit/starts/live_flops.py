"""Multiply-accumulates of live convolutions: those on a path from the images to the output.

Counting what a cell really computes ranks as well as most proxies (White et al., "A deeper look at
zero-cost proxies for lightweight NAS", ICLR blog track 2022). The path is found by the gradients of
synaptic flow (Tanaka et al., NeurIPS 2020). Proxies of Jacobians beside it ranked better without any training
(tau .762, not .655), and hardly so beside 60 short trainings (.755, not .748; benchmarks/results/own-images.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Float
from torch import Tensor, nn

_NORMALISATIONS = (nn.BatchNorm2d, nn.GroupNorm, nn.LayerNorm)


def live_flops(network: nn.Module, images: Float[Tensor, "n c h w"]) -> float:
    """FLOPs of the convolutions through which anything flows to the output."""
    pixels: dict[nn.Module, int] = {}

    def measure(module: nn.Module, _inputs: tuple[Tensor, ...], output: Tensor) -> None:
        pixels[module] = output.shape[-2] * output.shape[-1]

    convolutions = [module for module in network.modules() if isinstance(module, nn.Conv2d)]
    hooks = [module.register_forward_hook(measure) for module in convolutions]
    try:
        with flow(network, images):
            live = [
                module
                for module in convolutions
                if module.weight.grad is not None and bool(module.weight.grad.any())
            ]
    finally:
        for hook in hooks:
            hook.remove()
    return float(sum(module.weight.numel() * pixels[module] for module in live))


@contextmanager
def flow(network: nn.Module, images: Float[Tensor, "n c h w"]) -> Iterator[None]:
    """Hold the gradients of synaptic flow in the weights, which are absolute and in double precision.

    They are of the sum of the outputs for an image of ones, without normalisation. Weights, precision
    and gradients are as before when the block ends.
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
