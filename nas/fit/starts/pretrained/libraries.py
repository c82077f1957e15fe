"""Sources of pretrained networks: timm, torchvision (an extra), and functions of the user.

`pool=[torchvision/mobilenet_v3_small]` names a network of torchvision, `pool=my_nets.py:build` a function.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from edgenas_core.command.plug_ins import how_to_install
from edgenas_core.files.python_file import object_of
from edgenas_core.types.errors import UserError
from nas.fit.learners.base import blamed
from nas.fit.starts.pretrained.hub import digest_of


@cache
def library(name: str) -> Any:
    """The module `timm`, or one of torchvision.

    torchvision's wheel for CUDA registers operators that a CPU-only torch lacks; no network of these
    libraries needs them, so they are left out.

    Raises:
      UserError: if it cannot be imported.
    """
    import torch  # noqa: PLC0415 - seconds that only this space pays

    register = torch.library.register_fake

    def register_known(name: Any, *arguments: Any, **settings: Any) -> Any:
        if isinstance(name, str) and name.startswith("torchvision::"):
            return lambda function: function
        return register(name, *arguments, **settings)

    torch.library.register_fake = register_known
    try:
        return import_module(name)
    except (ImportError, RuntimeError, OSError) as error:
        reason = (str(error) or repr(error)).splitlines()[0]
        needs = "space=pretrained" if name == "timm" else "this network"
        raise UserError(
            f"{needs} needs {name}, which cannot be imported ({reason}): "
            f"{how_to_install('networks')}"
        ) from error
    finally:
        torch.library.register_fake = register


def timm() -> Any:
    """The module `timm`."""
    return library("timm")


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
    """File of the weights, downloaded unless torch's cache has it; its name contains its digest.

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


@cache
def function_named(function: str) -> Callable[[int], Any]:
    """The function `<file>.py:<name>`, whose file is run.

    Raises:
      UserError: if there is none.
    """
    path, _, name = function.rpartition(":")
    file = Path(path)
    if not file.is_file():
        raise UserError(f"pool={function}: there is no file {path}")
    with suppress(UserError):
        library("torchvision")  # which the file may import
    with blamed(f"pool={function}"):
        build: Callable[[int], Any] = object_of(file.absolute(), name)
    return build


def example_of(function: str) -> Any:
    """Network of two classes built by the function; its `pretrained_cfg` may have input size, `top1` and more.

    Raises:
      UserError: if it is no network, or does not classify an image of its side.
    """
    import torch  # noqa: PLC0415 - seconds that only such pools pay

    with blamed(f"pool={function}"):
        network = function_named(function)(2)
        side = getattr(network, "pretrained_cfg", {}).get("input_size", (3, 224, 224))[-1]
        with torch.inference_mode():
            shape = tuple(network.eval()(torch.zeros(1, 3, side, side)).shape)
    if shape != (1, 2):
        raise UserError(
            f"pool={function}: for 2 classes and one image it answers {shape}, not (1, 2)"
        )
    return network
