"""Pretrained weights, read from a safetensors file into a network with other classes."""

from __future__ import annotations

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from common.types.errors import UserError
from nas.spaces.pretrained.pool import PooledNetwork


def load_weights(network: nn.Module, pooled: PooledNetwork) -> None:
    """Copy all weights but those of the classifier.

    Raises:
      UserError: if the file cannot be had or read, or holds the weights of another network.
    """
    file = pooled.weights_file()
    try:
        weights = load_file(file)
    except (SafetensorError, OSError) as error:
        raise UserError(f"weights: {file} is not a safetensors file: {error}") from error
    wanted = network.state_dict()
    new = {f"{name}." for name in classifiers(network)}
    for name in sorted(wanted.keys() | weights.keys()):
        if name.startswith(tuple(new)) or name.endswith("num_batches_tracked"):
            weights.pop(name, None)
            continue
        shapes = [tuple(part[name].shape) if name in part else None for part in (weights, wanted)]
        if shapes[0] != shapes[1]:
            raise UserError(
                f"weights: {name} in {file} is of shape {shapes[0]}, and {pooled.architecture} has "
                f"{shapes[1]}: it is another network"
            )
        if not bool(torch.isfinite(weights[name]).all()):
            raise UserError(f"weights: {name} in {file} holds numbers that are not finite")
    network.load_state_dict(weights, strict=False)


def classifiers(network: nn.Module) -> tuple[str, ...]:
    """Names of the modules whose outputs are classes."""
    names = getattr(network, "pretrained_cfg", {}).get("classifier")  # timm's
    if names is None:
        linear = [name for name, part in network.named_modules() if isinstance(part, nn.Linear)]
        names = linear[-1:]
    return (names,) if isinstance(names, str) else tuple(names)
