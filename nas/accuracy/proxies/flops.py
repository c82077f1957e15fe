"""Multiply-accumulates of one image: the plainest proxy, hard to beat (NAS-Bench-Suite-Zero, NeurIPS 2022)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode


def flops(network: nn.Module, images: Float[Tensor, "n c h w"]) -> float:
    """Multiply-accumulates of convolutions and matrix products, for one image."""
    network.eval()
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        network(images[:1])
    return float(counter.get_total_flops()) / 2  # the counter counts a multiply-accumulate twice
