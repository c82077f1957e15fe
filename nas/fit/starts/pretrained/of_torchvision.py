"""Networks of torchvision with the weights that it publishes: `pool=[torchvision/mobilenet_v3_small]`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from edgenas_core.types.errors import UserError
from nas.fit.starts.pretrained.hub import digest_of
from nas.fit.starts.pretrained.timm_library import library

PREFIX = "torchvision/"
LICENCE = "bsd-3-clause (torchvision's; it states none of the weights)"

_WITH_OTHER_OUTPUTS = ("googlenet", "inception_v3")


def weights_of(name: str, file: Path | None) -> Any:
    """Entry of torchvision's weights of a network: the one that the file is named after, or the default.

    Raises:
      UserError: if there is none, torchvision cannot be imported, or the network's outputs are not its classes.
    """
    if name in _WITH_OTHER_OUTPUTS:
        raise UserError(f"pool={PREFIX}{name}: it has outputs beside its classes in training")
    models = library("torchvision.models")
    try:
        entries = list(models.get_model_weights(name))
    except ValueError as error:
        raise UserError(f"pool={PREFIX}{name}: torchvision has no such network") from error
    if file is None:
        return models.get_model_weights(name).DEFAULT
    named = [entry for entry in entries if entry.url.rpartition("/")[2] == file.name]
    if not named:
        names = ", ".join(entry.url.rpartition("/")[2] for entry in entries)
        raise UserError(f"weights: {file} is not one of torchvision's files of {name}: {names}")
    return named[0]


def checked_file(entry: Any, file: Path | None) -> Path:
    """The file of the weights, fetched unless torch's cache has it; its name tells its digest.

    Raises:
      UserError: if it cannot be fetched, or its SHA-256 is another.
    """
    from torch import hub  # noqa: PLC0415 - seconds that only such pools pay

    name = entry.url.rpartition("/")[2]
    digest = name.rpartition("-")[2].partition(".")[0]
    try:
        if file is None:
            file = Path(hub.get_dir()) / "checkpoints" / name
        if not file.is_file():
            file.parent.mkdir(parents=True, exist_ok=True)
            hub.download_url_to_file(entry.url, str(file), digest, progress=False)
    except (OSError, RuntimeError) as error:
        raise UserError(
            f"the weights of {PREFIX}{name.rpartition('-')[0]} cannot be fetched ({error}); on a machine with "
            f"internet download {entry.url} into a folder weights, copy it here, and add weights=weights"
        ) from error
    if not digest_of(file).startswith(digest):
        raise UserError(f"weights: the SHA-256 of {file} does not begin with {digest}")
    return file
