"""Scores of a network by several proxies, as named columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Float, Float64
from numpy import ndarray
from torch import Tensor, nn

from nas.accuracy.proxies.az_nas import progression, trainability
from nas.accuracy.proxies.flops import flops
from nas.accuracy.proxies.jacov import jacov
from nas.accuracy.proxies.live_convolutions import live_convolutions
from nas.accuracy.proxies.naswot import naswot
from nas.accuracy.proxies.ranks import log_rank_sum
from nas.accuracy.proxies.synflow import synflow

Proxy = Callable[[nn.Module, Tensor], tuple[float, ...]]

PROXIES: Mapping[str, tuple[tuple[str, ...], Proxy]] = {
    "flops": (("flops",), lambda network, images: (flops(network, images),)),
    "live_convolutions": (
        ("live_convolutions", "live_flops"),
        live_convolutions,
    ),
    "naswot": (("naswot",), lambda network, images: (naswot(network, images),)),
    "synflow": (("synflow",), lambda network, images: (synflow(network, images),)),
    "jacov": (("jacov",), lambda network, images: (jacov(network, images),)),
    "progression": (("expressivity", "progressivity"), progression),
    "trainability": (
        ("trainability",),
        lambda network, images: (trainability(network, images),),
    ),
}
"""Columns and function of each proxy. The two of AZ-NAS draw the weights anew, so they come last."""

SIGNALS: Mapping[str, Mapping[str, float]] = {
    **{column: {column: 1.0} for columns, _ in PROXIES.values() for column in columns},
    "az_nas": dict.fromkeys(("expressivity", "progressivity", "trainability", "flops"), 1.0),
    "aggregate": {"live_flops": 2.0, "trainability": 1.0, "jacov": 1.0},
}
"""Each signal is a sum of log ranks: its columns and their weights.

`aggregate` is what a search uses. It was chosen once, on 171 random cells of NAS-Bench-201 trained on
CIFAR-10.
"""

AGGREGATED = ("live_convolutions", "jacov", "trainability")
"""Proxies that `aggregate` needs."""


def signal(name: str, columns: Mapping[str, Float64[ndarray, "n"]]) -> Float64[ndarray, "n"]:
    """One of `SIGNALS`, of the columns of scores; higher is better."""
    parts = SIGNALS[name]
    scores = np.stack([columns[part] for part in parts], axis=-1)
    return log_rank_sum(scores, list(parts.values()))


def columns_of(proxies: Sequence[str]) -> tuple[str, ...]:
    """Names of the columns of some proxies."""
    return tuple(column for name in proxies for column in PROXIES[name][0])


def scores(
    network: nn.Module, images: Float[Tensor, "n c h w"], proxies: Sequence[str], seed: int
) -> list[float]:
    """A number for each of `columns_of(proxies)`; the network's weights are lost.

    What is drawn depends on `seed` alone; the state of PyTorch's generators is kept.
    """
    found: list[float] = []
    with torch.random.fork_rng(devices=[images.device] if images.is_cuda else []):
        torch.manual_seed(seed)
        for name in proxies:
            found += PROXIES[name][1](network, images)
    return found
