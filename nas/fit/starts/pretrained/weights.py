"""Pretrained weights, read from a safetensors file into a network with other classes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from edgenas_core.types.errors import UserError
from nas.fit.starts.pretrained.pool import PooledNetwork
from nas.fit.training.network import classifiers


def load_weights(network: nn.Module, pooled: PooledNetwork) -> None:
    """Copy all weights but those of the classifier.

    Raises:
      UserError: if the file cannot be had or read, or holds the weights of another network.
    """
    file = pooled.weights_file()
    copied = _copied(network, _tensors(file), f"{file}, and {pooled.architecture}")
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
    weights = _tensors(file)
    with torch.device("meta"):
        _copied(pooled.built(2), weights, f"{file}, and {pooled.architecture}")


def _tensors(file: Path) -> Mapping[str, Tensor]:
    """The weights of a file of safetensors, or of torchvision, of which no code is run."""
    try:
        if file.suffix == ".pth":
            weights: Mapping[str, Tensor] = torch.load(file, "cpu", weights_only=True)
            return weights
        return load_file(file)
    except Exception as error:  # whatever a damaged file raises
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise UserError(
            f"weights: {file} is not a safetensors file, or torchvision's: {reason}"
        ) from error


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
