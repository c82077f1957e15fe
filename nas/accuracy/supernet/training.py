"""Training of a supernet: one path a step, drawn uniformly over distinct networks.

The recipe is that of Ning et al. ("Evaluating efficient performance estimators of neural
architectures", NeurIPS 2021): batch normalisation without affine parameters and with the batch's own
statistics, SGD with learning rate 0.05, gradients clipped at 5; the last weights are averaged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float64, Int64
from numpy import ndarray
from torch import nn

from nas.accuracy.base import HasSupernet, SharedNetwork
from nas.accuracy.images.image_set import Images, ImageSet
from nas.accuracy.training.evaluation import accuracy_of
from nas.accuracy.training.recipe import Recipe
from nas.accuracy.training.trainer import Epoch, train

RECIPE = Recipe("supernet", lr=0.05, ema=0.02, clip=5.0)


def train_supernet(
    space: HasSupernet,
    images: ImageSet,
    *,
    epochs: int,
    seed: int,
    device: torch.device | str = "auto",
    on_epoch: Callable[[Epoch], None] = lambda _: None,
) -> SharedNetwork:
    """Train on the training images; what is drawn depends on the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        network = space.supernet(images.task)

    def choose(step: int) -> None:
        network.choose(space.sample_networks(np.random.default_rng([seed, step]), 1)[0])

    train(
        _module(network),
        images,
        replace(RECIPE, epochs=epochs),
        seed=seed,
        device=device,
        on_epoch=on_epoch,
        evaluate_every=epochs,
        before_step=choose,
    )
    return network


def path_accuracy(
    network: SharedNetwork,
    architecture: Int64[ndarray, "D"],
    images: ImageSet,
    count: int,
    *,
    device: torch.device | str = "auto",
) -> float:
    """Accuracy of one path on the first validation images: a score, of no trained network."""
    network.choose(architecture)
    first = Images(images.valid.pixels[:count], images.valid.labels[:count])
    return accuracy_of(_module(network), first, images, device=device)


def path_accuracies(
    network: SharedNetwork, architectures: Int64[ndarray, "n D"], images: ImageSet, count: int
) -> Float64[ndarray, "n"]:
    """`path_accuracy` of many."""
    return np.array([path_accuracy(network, row, images, count) for row in architectures])


def with_batch_statistics(network: nn.Module) -> None:
    """Replace batch normalisation, in place, by one without parameters and running statistics.

    Statistics of one path say nothing of another, so each batch is normalised by its own.
    """
    for module in network.modules():
        for name, child in module.named_children():
            if isinstance(child, nn.BatchNorm2d):
                features = child.num_features
                plain = nn.BatchNorm2d(features, affine=False, track_running_stats=False)
                setattr(module, name, plain)


def _module(network: SharedNetwork) -> nn.Module:
    if not isinstance(network, nn.Module):
        raise TypeError(f"{type(network).__name__} is no torch.nn.Module")
    return network
