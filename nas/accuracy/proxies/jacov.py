"""Jacobian covariance (Mellor et al., arXiv 2006.04647, version 1)."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

_SMALL = 1e-5


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
    values = torch.linalg.eigvalsh(correlations) + _SMALL
    return -float((values.log() + 1 / values).sum())
