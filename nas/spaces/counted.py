"""Parameters and multiply-accumulates of a network, counted on the network itself."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

_WITHOUT_PRODUCTS = (nn.BatchNorm2d, nn.ReLU)
"""Layers that change no shape and add no multiply-accumulates, but are slow on torch's device `meta`."""


def counted(build: Callable[[], nn.Module], images: Tensor) -> tuple[float, float]:
    """Number of parameters, and multiply-accumulates of one image; no weight is computed.

    Networks that cannot be built without values (on torch's device `meta`) are built with them.
    """
    try:
        with torch.device("meta"):
            network = build()
        return _count(network, images.to("meta"))
    except (NotImplementedError, RuntimeError):
        with torch.random.fork_rng(devices=[]):
            return _count(build(), images)


def _count(network: nn.Module, images: Tensor) -> tuple[float, float]:
    parameters = sum(parameter.numel() for parameter in network.parameters())
    for module in network.modules():
        if isinstance(module, _WITHOUT_PRODUCTS):
            module.forward = nn.Identity().forward  # type: ignore[method-assign]
    return float(parameters), flops(network, images)


def flops(network: nn.Module, images: Float[Tensor, "n c h w"]) -> float:
    """Multiply-accumulates of convolutions and matrix products, for one image."""
    network.eval()
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        network(images[:1])
    return float(counter.get_total_flops()) / 2  # the counter counts a multiply-accumulate twice
