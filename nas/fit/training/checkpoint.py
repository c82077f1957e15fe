"""Checkpoints of a training: one safetensors file, whose header says which training it is of."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save
from torch import Tensor

from edgenas_core.files.atomic_file import replacing
from edgenas_core.files.safe_file import require_regular
from edgenas_core.types.errors import UserError
from nas.fit.training.step import restore

_CARRIED = ("network.", "momentum.", "average.")
"""Beginnings of the names of what a longer training takes over."""


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
    progress, stored = _header(path)
    for name, value in identity.items():
        if stored.get(name) != value:
            raise UserError(
                f"{path} is the checkpoint of a training with {name}={stored.get(name)}, but here it "
                f"is {value}; remove it to begin anew"
            )
    _restore(path, state)
    return progress


def carry_over(path: Path, state: Mapping[str, Tensor]) -> Progress:
    """Restore weights, momenta and averages of a shorter training of the same network, in place.

    Its epochs are those that the longer one has behind it, without an accuracy; its seconds are not.

    Raises:
      UserError: if the file is corrupt, or of another network; the state is then as it was.
    """
    progress, _ = _header(path)
    _restore(path, {name: tensor for name, tensor in state.items() if name.startswith(_CARRIED)})
    return Progress(progress.losses, (None,) * len(progress.losses))


def weights_of(path: Path) -> dict[str, Tensor]:
    """Weights that a training ended with: their averages, where it has them.

    Raises:
      UserError: if the file is corrupt.
    """
    try:
        require_regular(path)
        tensors = load_file(path)
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path} is not a checkpoint of a training ({error})") from error
    return {
        name.removeprefix(prefix): tensor
        for prefix in ("network.", "average.")
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }


def epochs_done(path: Path) -> int:
    """Epochs that a checkpoint has behind it; 0 if there is none that can be read."""
    try:
        return len(_header(path)[0].losses)
    except UserError:
        return 0


def seconds_done(path: Path) -> float:
    """Duration of the epochs that a checkpoint has behind it; 0 if there is none that can be read."""
    try:
        return _header(path)[0].seconds
    except UserError:
        return 0.0


def epochs_of(path: Path) -> int | None:
    """Epochs of the whole training that a checkpoint is of; None if there is none that can be read."""
    try:
        epochs = _header(path)[1].get("epochs")
    except UserError:
        return None
    return epochs if isinstance(epochs, int) else None


def _header(path: Path) -> tuple[Progress, dict[str, Any]]:
    """The past of a training, and its identity."""
    try:
        require_regular(path)
        with safe_open(path, "pt") as file:
            header = file.metadata() or {}
        past, identity = json.loads(header["progress"]), dict(json.loads(header["identity"]))
        accuracies = (a if a is None else float(a) for a in past["accuracies"])
        losses, seconds = tuple(map(float, past["losses"])), float(past["seconds"])
        return Progress(losses, tuple(accuracies), seconds), identity
    except (SafetensorError, OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(
            f"{path} is not a checkpoint of a training ({error}); remove it to begin anew"
        ) from error


def _restore(path: Path, state: Mapping[str, Tensor]) -> None:
    try:
        with safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in state}
    except SafetensorError as error:
        raise UserError(f"{path} is the checkpoint of another network: {error}") from error
    if any(tensors[name].shape != tensor.shape for name, tensor in state.items()):
        raise UserError(f"{path} is the checkpoint of another network; remove it to begin anew")
    restore(state, tensors)
