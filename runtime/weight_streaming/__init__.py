"""Networks larger than their memory: weights are read, copied and used layer by layer.

The package itself is called as the function: `runtime.stream(model, budget="64MB")`; `pack` makes a file for
models that were never built.
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
        """As `runtime.weight_streaming.streamed.stream`, imported with torch only when it is called."""
        from runtime.weight_streaming.streamed import stream  # noqa: PLC0415 - slow, and planners need it not

        return stream(*arguments, **named)


def pack(model: nn.Module, example: Tensor, *, source: str | Path, into: str | Path) -> Path:
    """Writes a plain safetensors file's weights into one that `runtime.stream` takes as `weights=`.

        with torch.device("meta"):
            large = Model().eval()
        runtime.stream.pack(large, x, source="model.safetensors", into="packed.safetensors")
        with runtime.stream(large, x, budget="64MB", weights="packed.safetensors") as small:
            y = small(x)

    Never more than a weight is in memory.

    Args:
      model: as of `runtime.stream`; on the meta device, where it takes no memory, or anywhere.
      example: an input of the shape and type to come.
      source: a safetensors file with the names of the model's state_dict.
      into: the packed file; one that is there is replaced when the new one is whole.

    Returns:
      `into`.

    Raises:
      OSError: if a file cannot be read or written, or the source has not what the model needs.
      ValueError: if the model cannot be cut, or has values that no file can hold.
    """
    from runtime.weight_streaming.packing import pack as packed  # noqa: PLC0415 - as above

    return packed(model, example, source=source, into=into)


sys.modules[__name__].__class__ = _Callable
