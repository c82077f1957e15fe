"""Networks that a function of the user builds, with their weights: `pool=my_nets.py:build`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from edgenas_core.files.python_file import object_of
from edgenas_core.types.errors import UserError
from nas.fit.learners.base import blamed
from nas.fit.starts.pretrained.timm_library import library


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
    """A network of two classes, by the function; its `pretrained_cfg` says what is known, `top1` too.

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
