"""Zero-cost proxies that `own_images_ranking` compares with those of a search."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nas.accuracy.proxies import scores as of_search
from nas.accuracy.proxies.flops import flops
from nas.accuracy.proxies.jacobians import SMALL, block_features, draw_weights
from nas.accuracy.proxies.live_convolutions import flow

_ACTIVATIONS = (nn.ReLU, nn.ReLU6, nn.Hardswish, nn.SiLU, nn.GELU)


def naswot(network: nn.Module, images: Float[Tensor, "n c h w"]) -> float:
    """Log-determinant of the kernel of Hamming similarities; -inf where images are not told apart.

    The kernel is the sum over activations of x x' + (1 - x)(1 - x)', where x = 1 for positive inputs
    (Mellor et al., "Neural architecture search without training", ICML 2021).
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


def synflow(network: nn.Module, images: Float[Tensor, "n c h w"]) -> float:
    """Logarithm of the sum over weights of |w dR/dw|; -inf where nothing flows.

    Tanaka et al., NeurIPS 2020; as a proxy: Abdelfattah et al., ICLR 2021.
    """
    with flow(network, images):
        total = sum(
            float((w.detach() * w.grad).sum()) for w in network.parameters() if w.grad is not None
        )
    return math.log(total) if total > 0 else -math.inf


def progression(network: nn.Module, images: Float[Tensor, "n c h w"]) -> tuple[float, float]:
    """Expressivity and progressivity of AZ-NAS (Lee & Ham, CVPR 2024); -inf where features vanish.

    Expressivity is the sum over blocks of the entropy of the eigenvalues of the features'
    covariance, progressivity its smallest step between blocks (eq. 1 to 5).
    """
    draw_weights(network)
    with torch.no_grad():
        features = block_features(network.train(), images)
    entropies = [_entropy(feature) for feature in features]
    expressivity = sum(entropies)
    progressivity = min((after - before for before, after in pairwise(entropies)), default=0.0)
    return _finite(expressivity), _finite(progressivity)


def _finite(score: float) -> float:
    return score if math.isfinite(score) else -math.inf


def _entropy(feature: Float[Tensor, "n d i j"]) -> float:
    pixels = feature.float().movedim(1, -1).flatten(0, -2)
    covariance = torch.cov(pixels.T, correction=0).cpu()
    if not covariance.isfinite().all():
        return math.nan
    values = torch.linalg.eigvalsh(covariance).clamp(min=0)
    share = values / values.sum()
    return -float((share * (share + SMALL).log()).sum())


PROXIES: of_search.Proxies = {
    "flops": (("flops",), lambda network, images: (flops(network, images),)),
    "live_convolutions": of_search.PROXIES["live_convolutions"],
    "naswot": (("naswot",), lambda network, images: (naswot(network, images),)),
    "synflow": (("synflow",), lambda network, images: (synflow(network, images),)),
    "jacov": of_search.PROXIES["jacov"],
    "progression": (("expressivity", "progressivity"), progression),
    "trainability": of_search.PROXIES["trainability"],
}
"""Columns and function of each proxy. The two of AZ-NAS draw the weights anew, so they come last."""

SIGNALS: Mapping[str, Mapping[str, float]] = {
    **{column: {column: 1.0} for columns, _ in PROXIES.values() for column in columns},
    "az_nas": dict.fromkeys(("expressivity", "progressivity", "trainability", "flops"), 1.0),
    "aggregate": of_search.SIGNALS["aggregate"],
}
"""Each signal is a sum of log ranks: its columns and their weights."""
