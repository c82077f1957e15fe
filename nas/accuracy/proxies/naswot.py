"""NASWOT (Mellor et al., "Neural architecture search without training", ICML 2021)."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

_ACTIVATIONS = (nn.ReLU, nn.ReLU6, nn.Hardswish, nn.SiLU, nn.GELU)


def naswot(network: nn.Module, images: Float[Tensor, "n c h w"]) -> float:
    """Log-determinant of the kernel of Hamming similarities; -inf where images are not told apart.

    The kernel is the sum over activations of x x' + (1 - x)(1 - x)', where x = 1 for positive inputs.
    """
    kernel = torch.zeros(len(images), len(images), dtype=torch.float64, device=images.device)

    def add(_module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        x = (inputs[0].detach().flatten(1) > 0).float()
        kernel.add_((x @ x.T + (1 - x) @ (1 - x).T).double())

    hooks = [
        module.register_forward_pre_hook(add)
        for module in network.modules()
        if isinstance(module, _ACTIVATIONS)
    ]
    network.train()
    try:
        with torch.no_grad():
            network(images)
    finally:
        for hook in hooks:
            hook.remove()
    sign, log = torch.linalg.slogdet(kernel)
    return float(log) if float(sign) > 0 else -math.inf
