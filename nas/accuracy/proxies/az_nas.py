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


def progression(network: nn.Module, images: Float[Tensor, "n c h w"]) -> tuple[float, float]:
    """Expressivity and progressivity; -inf where features vanish.

    Expressivity is the sum over blocks of the entropy of the eigenvalues of the features'
    covariance, progressivity its smallest step between blocks (eq. 1 to 5).
    """
    _draw_weights(network)
    with torch.no_grad():
        features = block_features(network.train(), images)
    entropies = [_entropy(feature) for feature in features]
    steps = [after - before for before, after in pairwise(entropies)]
    found = sum(entropies), min(steps, default=0.0)
    return tuple(one if math.isfinite(one) else -math.inf for one in found)  # type: ignore[return-value] # two of them


def trainability(network: nn.Module, images: Float[Tensor, "n c h w"]) -> float:
    """Mean over blocks of 2 - s - 1/s; -inf where a block is the identity.

    s is the spectral norm of the block's Jacobian, estimated by one Rademacher vector (eq. 7 to 9).
    """
    _draw_weights(network)
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
    s = torch.stack([torch.linalg.matrix_norm(one.cpu(), ord=2) for one in products])
    mean = float((2 - s - 1 / (s + _SMALL)).mean())
    return mean if math.isfinite(mean) else -math.inf


def _entropy(feature: Float[Tensor, "n d i j"]) -> float:
    pixels = feature.float().movedim(1, -1).flatten(0, -2)
    covariance = torch.cov(pixels.T, correction=0).cpu()  # as above
    if not covariance.isfinite().all():
        return math.nan
    values = torch.linalg.eigvalsh(covariance).clamp(min=0)
    share = values / values.sum()
    return -float((share * (share + _SMALL).log()).sum())


def _draw_weights(network: nn.Module) -> None:
    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
