"""Checkpoints of a training: one safetensors file, whose header says which training it is of."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from common.files.atomic_file import replacing
from common.types.errors import UserError
from nas.accuracy.training.optimization.step import restore


@final
@dataclass(frozen=True)
class Progress:
    """The past of a training."""

    losses: tuple[float, ...] = ()  # mean of each epoch
    accuracies: tuple[float | None, ...] = ()  # after each epoch; None where not evaluated
    seconds: float = 0.0


def save_checkpoint(
    path: Path, state: Mapping[str, Tensor], progress: Progress, identity: Mapping[str, Any]
) -> None:
    """Write atomically.

    Raises:
      OSError: if it cannot be written.
    """
    header = {
        "progress": json.dumps(dataclasses.asdict(progress)),
        "identity": json.dumps(identity, sort_keys=True),
    }
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in state.items()}
    with replacing(path) as file:
        file.write(save(tensors, header))


def load_checkpoint(
    path: Path, state: Mapping[str, Tensor], identity: Mapping[str, Any]
) -> Progress:
    """Restore the state in place, if there is a checkpoint.

    Raises:
      UserError: if it is corrupt, or of another training; the state is then as it was.
    """
    if not path.is_file():
        return Progress()
    try:
        with safe_open(path, "pt") as file:
            header = file.metadata() or {}
            _require_same(json.loads(header["identity"]), identity, path)
            progress = _progress(json.loads(header["progress"]))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - it is no mapping
        if {name: one.shape for name, one in tensors.items()} != {
            name: one.shape for name, one in state.items()
        }:
            raise UserError(f"{path} is the checkpoint of another network; remove it to begin anew")
    except (SafetensorError, OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(
            f"{path} is not a checkpoint of a training ({error}); remove it to begin anew"
        ) from error
    restore(state, tensors)
    return progress


def carry_over(path: Path, state: Mapping[str, Tensor]) -> Progress:
    """Restore weights, momenta and averages of a shorter training of the same network, in place.

    Its epochs are those that the longer one has behind it, without an accuracy; its seconds are not.

    Raises:
      UserError: if the file is corrupt, or of another network; the state is then as it was.
    """
    try:
        with safe_open(path, "pt") as file:
            losses = json.loads(file.metadata()["progress"])["losses"]
            kept = {
                name: (file.get_tensor(name), tensor)
                for name, tensor in state.items()
                if name.startswith(("network.", "momentum.", "average."))
            }
            progress = Progress(tuple(losses), (None,) * len(losses))
    except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is not a checkpoint of this network: {error}") from error
    if any(one.shape != tensor.shape for one, tensor in kept.values()):
        raise UserError(f"{path} is the checkpoint of another network")
    restore(
        {name: tensor for name, (_, tensor) in kept.items()},
        {name: one for name, (one, _) in kept.items()},
    )
    return progress


def epochs_done(path: Path) -> int:
    """Epochs that a checkpoint has behind it; 0 if there is none that can be read."""
    losses = _header(path, "progress").get("losses")
    return len(losses) if isinstance(losses, list) else 0


def epochs_of(path: Path) -> int | None:
    """Epochs of the whole training that a checkpoint is of; None if there is none that can be read."""
    epochs = _header(path, "identity").get("epochs")
    return epochs if isinstance(epochs, int) else None


def _header(path: Path, name: str) -> dict[str, Any]:
    try:
        with safe_open(path, "pt") as file:
            found = json.loads((file.metadata() or {})[name])
    except (SafetensorError, OSError, ValueError, KeyError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _progress(past: Mapping[str, Any]) -> Progress:
    """The past of a training; ValueError or TypeError if a number is none."""
    losses = tuple(_finite(one) for one in past["losses"])
    accuracies = tuple(None if one is None else _finite(one) for one in past["accuracies"])
    return Progress(losses, accuracies, _finite(past["seconds"]))


def _finite(number: Any) -> float:
    if not isinstance(number, int | float) or not abs(number) < 1e300:
        raise ValueError(f"{str(number)[:40]} is not a finite number")
    return number


def _require_same(stored: Any, identity: Mapping[str, Any], path: Path) -> None:
    """Name the first thing that differs."""
    for name, value in identity.items():
        if stored[name] != value:
            raise UserError(
                f"{path} is the checkpoint of a training with {name}={stored[name]}, but here it is "
                f"{value}; remove it to begin anew"
            )
