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
        """As `runtime.stream.streamed.stream`, imported with torch only when it is called."""
        from runtime.stream.streamed import stream  # noqa: PLC0415 - slow, and planners need it not

        return stream(*arguments, **named)


def pack(model: nn.Module, example: Tensor, *, source: str | Path, into: str | Path) -> Path:
    """As `runtime.stream.packing.pack`, imported with torch only when it is called."""
    from runtime.stream.packing import pack as packed  # noqa: PLC0415 - as above

    return packed(model, example, source=source, into=into)


sys.modules[__name__].__class__ = _Callable
