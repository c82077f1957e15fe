"""timm and torchvision, the libraries of the pretrained networks, which are an extra."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from edgenas_core.types.errors import UserError


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
            f"{needs} needs {name}, which cannot be imported ({reason}): pip install '.[networks]'"
        ) from error
    finally:
        torch.library.register_fake = register


def timm() -> Any:
    """The module `timm`."""
    return library("timm")
