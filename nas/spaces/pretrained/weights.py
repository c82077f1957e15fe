"""Pretrained weights, read from a safetensors file into a network with other classes."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor, nn

from common.types.errors import UserError
from nas.accuracy.training.classifiers import classifiers
from nas.spaces.pretrained.of_torchvision import tensors_of
from nas.spaces.pretrained.pool import PooledNetwork


def load_weights(network: nn.Module, pooled: PooledNetwork) -> None:
    """Copy all weights but those of the classifier.

    Raises:
      UserError: if the file cannot be had or read, or holds the weights of another network.
    """
    file = pooled.weights_file()
    try:
        weights = tensors_of(file) if file.suffix == ".pth" else load_file(file)
    except (SafetensorError, OSError) as error:
        raise UserError(f"weights: {file} is not a safetensors file: {error}") from error
    copied = _copied(network, weights, f"{file}, and {pooled.architecture}")
    for name, values in copied.items():
        if not bool(torch.isfinite(values).all()):
            raise UserError(f"weights: {name} in {file} holds numbers that are not finite")
    network.load_state_dict(copied, strict=False)


def require_weights(pooled: PooledNetwork) -> None:
    """Check the digest of the file and the shapes of its weights, of which none is computed with.

    Raises:
      UserError: as `load_weights`.
    """
    file = pooled.weights_file()
    if file.suffix == ".pth":
        _copied(pooled.built(2), tensors_of(file), f"{file}, and {pooled.architecture}")
        return
    try:
        with safe_open(file, "pt") as opened:
            shapes = {name: opened.get_slice(name).get_shape() for name in opened.keys()}  # noqa: SIM118 - no mapping
    except (SafetensorError, OSError) as error:
        raise UserError(f"weights: {file} is not a safetensors file: {error}") from error
    with torch.device("meta"):
        weights = {name: torch.empty(shape) for name, shape in shapes.items()}
        _copied(pooled.built(2), weights, f"{file}, and {pooled.architecture}")


def _copied(network: nn.Module, weights: Mapping[str, Tensor], between: str) -> dict[str, Tensor]:
    """The weights of all but the classifier, which are those of the network."""
    wanted, copied = network.state_dict(), {}
    new = tuple(f"{name}." for name in classifiers(network))
    for name in sorted(wanted.keys() | weights.keys()):
        if name.startswith(new) or name.endswith("num_batches_tracked"):
            continue
        shapes = [tuple(part[name].shape) if name in part else None for part in (weights, wanted)]
        if shapes[0] != shapes[1]:
            raise UserError(
                f"weights: {name} is of shape {shapes[0]} in {between} has {shapes[1]}: it is another network"
            )
        copied[name] = weights[name]
    return copied
