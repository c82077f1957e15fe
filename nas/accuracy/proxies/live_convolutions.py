"""Live convolutions: those on a path from the images to the output, and their multiply-accumulates.

Counting what a cell really computes ranks as well as most proxies (White et al., "A deeper look at
zero-cost proxies for lightweight NAS", ICLR blog track 2022).
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from nas.accuracy.proxies.synflow import flow


def live_convolutions(network: nn.Module, images: Float[Tensor, "n c h w"]) -> tuple[float, float]:
    """Number of convolutions through which anything flows to the output, and their FLOPs."""
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
    return float(len(live)), float(sum(one.weight.numel() * pixels[one] for one in live))
