"""Scores of a network by several proxies, as named columns, and their combination by ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Float, Float64
from numpy import ndarray
from torch import Tensor, nn

from nas.fit.starts.proxies.jacobians import jacov, trainability
from nas.fit.starts.proxies.live_convolutions import live_convolutions

Proxies = Mapping[str, tuple[tuple[str, ...], Callable[[nn.Module, Tensor], tuple[float, ...]]]]
"""Columns and function of each proxy, by its name."""

PROXIES: Proxies = {
    "live_convolutions": (("live_convolutions", "live_flops"), live_convolutions),
    "jacov": (("jacov",), lambda network, images: (jacov(network, images),)),
    "trainability": (("trainability",), lambda network, images: (trainability(network, images),)),
}
"""The last draws the weights anew."""

SIGNALS: Mapping[str, Mapping[str, float]] = {
    "live_flops": {"live_flops": 1.0},
    "aggregate": {"live_flops": 2.0, "trainability": 1.0, "jacov": 1.0},
}
"""Each signal is a sum of log ranks: its columns and their weights.

`aggregate` was chosen once, on 171 random cells of NAS-Bench-201 trained on CIFAR-10.
"""

AGGREGATED = tuple(PROXIES)
"""Proxies that `aggregate` needs."""


def signal(
    name: str,
    columns: Mapping[str, Float64[ndarray, "n"]],
    signals: Mapping[str, Mapping[str, float]] = SIGNALS,
) -> Float64[ndarray, "n"]:
    """One of the signals, of the columns of scores; higher is better."""
    weights = signals[name]
    scores_by_column = np.stack([columns[column] for column in weights], axis=-1)
    return log_rank_sum(scores_by_column, list(weights.values()))


def log_rank_sum(
    scores: Float64[ndarray, "n c"], weights: Sequence[float]
) -> Float64[ndarray, "n"]:
    """Sum over columns of weight * log(rank / n): 0 for a network that is the best by every score.

    A sum of logarithms punishes a network that is bad by one score (AZ-NAS, Lee & Ham, CVPR 2024,
    eq. 11). Equal scores share their mean rank.
    """
    from scipy.stats import rankdata  # noqa: PLC0415 - half a second that a table does not need

    logs = np.log(rankdata(scores, axis=0) / len(scores))
    total: Float64[ndarray, "n"] = logs @ np.asarray(weights)
    return total


def columns_of(names: Sequence[str], proxies: Proxies = PROXIES) -> tuple[str, ...]:
    """Names of the columns of some proxies."""
    return tuple(column for name in names for column in proxies[name][0])


def scores(
    network: nn.Module,
    images: Float[Tensor, "n c h w"],
    names: Sequence[str],
    seed: int,
    proxies: Proxies = PROXIES,
) -> list[float]:
    """A number for each of the columns of the named proxies; the network's weights are lost.

    What is drawn depends on `seed` alone; the state of PyTorch's generators is kept.
    """
    numbers: list[float] = []
    with torch.random.fork_rng(devices=[images.device] if images.is_cuda else []):
        torch.manual_seed(seed)
        for name in names:
            numbers += proxies[name][1](network, images)
    return numbers
