"""AZ-NAS (Lee & Ham, CVPR 2024, section 3.2): three scores of a network's block features.

Its fourth score is FLOPs; the four are combined by their log ranks (`ranks.log_rank_sum`). As in the
authors' code, convolutions and linear layers are drawn anew (Kaiming, normal, fan-in).
"""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nas.accuracy.proxies.blocks import block_features

_SMALL = 1e-8


def az_nas(network: nn.Module, images: Float[Tensor, "n c h w"]) -> tuple[float, float, float]:
    """Expressivity, progressivity and trainability; -inf where features vanish.

    Expressivity is the sum over blocks of the entropy of the eigenvalues of the features'
    covariance, progressivity its smallest step between blocks (eq. 1 to 5), trainability the mean of
    2 - s - 1/s, s being the spectral norm of a block's Jacobian, estimated by one Rademacher vector
    (eq. 7 to 9).
    """
    _draw_weights(network)
    network.train()
    features = block_features(network, images)
    entropies = _entropies(features)
    steps = entropies[1:] - entropies[:-1]
    progressivity = float(steps.min()) if len(steps) else 0.0
    scores = (float(entropies.sum()), progressivity, _trainability(features))
    return tuple(score if math.isfinite(score) else -math.inf for score in scores)  # type: ignore[return-value] # three of them


def _entropies(features: list[Tensor]) -> Float[Tensor, " blocks"]:
    found = []
    for feature in features:
        pixels = feature.detach().float().movedim(1, -1).flatten(0, -2)
        covariance = torch.cov(pixels.T, correction=0)
        if not covariance.isfinite().all():
            return torch.full((len(features),), math.nan)
        values = torch.linalg.eigvalsh(covariance).clamp(min=0)
        share = values / values.sum()
        found.append(-(share * (share + _SMALL).log()).sum())
    return torch.stack(found)


def _trainability(features: list[Tensor]) -> float:
    norms = []
    for before, after in pairwise(features):
        signs = torch.randint_like(after, 2) * 2 - 1
        (back,) = torch.autograd.grad(
            after, before, signs, allow_unused=True, materialize_grads=True, retain_graph=True
        )
        if back.shape == signs.shape and torch.equal(back, signs):  # the identity
            return -math.inf
        shrunk = before.shape[-1] // after.shape[-1]
        into = nn.functional.pixel_unshuffle(back, shrunk).movedim(1, -1).flatten(0, -2)
        out = signs.movedim(1, -1).flatten(0, -2)
        norms.append(torch.linalg.matrix_norm(into.T @ out / len(out), ord=2))
    if not norms:
        return -math.inf
    s = torch.stack(norms)
    return float((2 - s - 1 / (s + _SMALL)).mean())


def _draw_weights(network: nn.Module) -> None:
    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
