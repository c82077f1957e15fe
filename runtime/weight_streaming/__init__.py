"""Weight streaming: run networks that are larger than their memory.

The package is `runtime.stream` and is callable: `runtime.stream(model, budget="64MB")`. `pack` makes weight
files for models that were never built in memory.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, final

if TYPE_CHECKING:
    from torch import Tensor, nn


@final
class _Callable(ModuleType):
    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call `runtime.weight_streaming.streamed.stream`, importing torch only now."""
        from runtime.weight_streaming.streamed import stream  # noqa: PLC0415 - imports torch

        return stream(*arguments, **named)


def pack(model: nn.Module, example: Tensor, *, source: str | Path, into: str | Path) -> Path:
    """Convert a plain safetensors file to a weight file for `runtime.stream(weights=...)`.

        with torch.device("meta"):
            large = Model().eval()
        runtime.stream.pack(large, x, source="model.safetensors", into="packed.safetensors")
        with runtime.stream(large, x, budget="64MB", weights="packed.safetensors") as small:
            y = small(x)

    At most one weight is in memory at a time. Extra tensors of the source are left out.

    Args:
      model: a model as in `runtime.stream`, on any device; on the meta device it takes no memory.
      example: an input of the shape and type to come, on any device; its values are not used.
      source: a safetensors file with the names of the model's state_dict, as written by
        `safetensors.torch.save_file` and `save_model`.
      into: the weight file; an existing one is replaced atomically.

    Returns:
      `into`.

    Raises:
      OSError: if a file cannot be read or written, or the source lacks a weight of the model.
      ValueError: if the model cannot be decomposed, or has values that a file cannot store.
    """
    from runtime.weight_streaming.packing import pack as packed  # noqa: PLC0415 - imports torch

    return packed(model, example, source=source, into=into)


sys.modules[__name__].__class__ = _Callable
