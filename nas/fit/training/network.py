"""Networks of a training: untrained ones that resize their images, and the classifiers of any network."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int64
from numpy import ndarray
from torch import Tensor, nn
from torch.nn import functional

from edgenas_core.types.task import Task
from latency.base import Space


def untrained(
    space: Space, architecture: Int64[ndarray, "D"], task: Task, side: int | None = None
) -> nn.Module:
    """Build the untrained network, which resizes the task's images to its own side.

    Resizing is a hook: names and values of the weights are those of `space.network`. With `side`,
    the network is that of a task with images of this side.
    """
    smaller = task if side is None else replace(task, image_side=side)
    network = space.network(architecture, smaller)
    resize(network, own_side(space, architecture, smaller), task.image_side)
    return network


def resize(network: nn.Module, side: int, image_side: int) -> None:
    """Let a network resize images of `image_side` to `side` before it computes."""
    if side != image_side:
        network.register_forward_pre_hook(partial(_resize, side))


def own_side(space: Space, architecture: Int64[ndarray, "D"], task: Task) -> int:
    """Side in pixels of the images that an architecture's network takes."""
    with torch.random.fork_rng(devices=[]):
        return int(space.example_input(architecture, task, 1).shape[-1])


def resized(images: Float[Tensor, "n c h w"], side: int) -> Float[Tensor, "n c side side"]:
    """Images of another side, bilinear with antialiasing, as Pillow does it."""
    if images.shape[-1] == side:
        return images
    return functional.interpolate(images, (side, side), mode="bilinear", antialias=True)


def _resize(side: int, _network: nn.Module, inputs: tuple[Tensor, ...]) -> Any:
    return resized(inputs[0], side)


def has_no_statistics(network: nn.Module) -> bool:
    """Whether there is batch normalisation that has seen no image yet."""
    norms = (module for module in network.modules() if isinstance(module, nn.BatchNorm2d))
    means = [norm.running_mean for norm in norms if norm.running_mean is not None]
    return bool(means) and not any(mean.any() for mean in means)


def renew_statistics(
    model: nn.Module, batches: Iterable[Any], compute: Callable[[Any], object] | None = None
) -> None:
    """Replace the statistics of batch normalisation by their means over batches; leave training mode.

    `compute` runs the model on a batch, by default by calling it.
    """
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the mean over all batches
    model.train()
    with torch.no_grad():
        for batch in batches:
            (compute or model)(batch)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    model.eval()


class HasHeads(nn.Module):
    """Network that names the modules that are initialised anew for other classes."""

    heads: tuple[str, ...]


def classifiers(network: nn.Module) -> tuple[str, ...]:
    """Names of the classifier modules: by `heads`, by timm, or the last linear layer.

    Where timm names two, their answers are averaged.
    """
    modules = dict(network.named_modules())
    by_timm = (getattr(network, "pretrained_cfg", None) or {}).get("classifier") or ()
    names = (by_timm,) if isinstance(by_timm, str) else by_timm
    names = network.heads if isinstance(network, HasHeads) else names
    linear = [name for name, module in modules.items() if isinstance(module, nn.Linear)]
    return tuple(name for name in names if name in modules) or tuple(linear[-1:])
