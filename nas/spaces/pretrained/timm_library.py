"""timm, the library of the pretrained networks, which is an extra."""

from __future__ import annotations

from functools import cache
from typing import Any

from common.types.errors import UserError


@cache
def timm() -> Any:
    """The module `timm`.

    It imports torchvision, whose wheel for CUDA registers operators that a CPU-only torch lacks; no
    network of timm needs them, so they are left out.

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
        import timm as library  # noqa: PLC0415 - an extra
    except (ImportError, RuntimeError, OSError) as error:
        reason = (str(error) or repr(error)).splitlines()[0]
        raise UserError(
            f"space=pretrained needs timm, which cannot be imported ({reason}): "
            f"pip install '.[networks]'"
        ) from error
    finally:
        torch.library.register_fake = register
    return library
