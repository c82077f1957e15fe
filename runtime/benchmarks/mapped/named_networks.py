"""Networks to profile, by name. Weights are random, because times do not depend on them.

Weights are scaled so that signals neither vanish nor explode; otherwise all outputs would equal the
last layer's biases, and all variants would agree.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor, nn

from edgenas_core.inference.models.nas_bench_201 import CellNetwork, example_input
from edgenas_core.inference.models.resnet import ResNet

_SETTLING = 8
"""Images from which the statistics of batch normalisation are taken."""


@final
@dataclass(frozen=True)
class NamedNetwork:
    """A network with its name and inputs."""

    name: str
    module: nn.Module
    x: Tensor
    """Input for timing."""
    others: tuple[Tensor, ...]
    """Inputs on which the variants are compared."""


_BUILDERS: dict[str, tuple[Callable[[float], nn.Module], int]] = {
    "nb201": (lambda part: CellNetwork(("nor_conv_3x3",) * 6, channels=_of(16, part)), 32),
    "resnet18": (lambda part: ResNet(18, width=_of(64, part)), 224),
    "resnet50": (lambda part: ResNet(50, width=_of(64, part)), 224),
}


def _of(channels: int, part: float) -> int:
    return max(2, round(channels * part))


def check_name(name: str) -> None:
    """Check that `build_network` knows a name; a user's function is not imported yet.

    Raises:
      ValueError: naming the known networks.
    """
    if name not in _BUILDERS and ":" not in name:
        raise ValueError(
            f"networks={name} is unknown; use one of {', '.join(_BUILDERS)}, or "
            "package.module:function, which returns a torch module and its input"
        )


def build_network(
    name: str, *, batch: int = 1, width: float = 1.0, compared: int = 16
) -> NamedNetwork:
    """Build a network by name, or by a user's function `package.module:make`.

    Batch and width, the share of the published channels, apply to named networks only; variants are
    compared on `compared` inputs.

    Raises:
      ValueError: if there is no such network.
    """
    check_name(name)
    noise = torch.Generator().manual_seed(1)
    with torch.random.fork_rng(devices=()), torch.no_grad():
        torch.manual_seed(0)
        if ":" in name:
            module, x = _of_user(name)
        else:
            build, side = _BUILDERS[name]
            module, x = build(width), example_input(side, batch_size=batch)
            scale_weights(module, torch.randn(_SETTLING, 3, side, side, generator=noise))
    others = tuple(torch.randn(x.shape, generator=noise) for _ in range(compared))
    return NamedNetwork(name, module.eval().requires_grad_(requires_grad=False), x, others)


def scale_weights(module: nn.Module, images: Tensor) -> None:
    """Initialise weights as in He et al. (ICCV 2015), and batch normalisation from these images."""
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        elif isinstance(layer, nn.BatchNorm2d):
            layer.momentum = 1.0
    module.train()(images)


def _of_user(name: str) -> tuple[nn.Module, Tensor]:
    place, _, function = name.partition(":")
    try:
        made: Any = getattr(importlib.import_module(place), function)()
    except (ImportError, AttributeError) as error:
        raise ValueError(f"networks={name}: {error}") from error
    except Exception as error:  # the user's own code may raise anything
        raise ValueError(f"networks={name}: {type(error).__name__}: {error}") from error
    if not (isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], nn.Module)):
        raise ValueError(f"networks={name} must return a torch module and an example input")
    return made[0], made[1]
