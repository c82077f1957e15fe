"""Weight streaming: run networks that are larger than their memory.

The package is `edgenas_runtime.stream` and is callable: `edgenas_runtime.stream(model, budget="64MB")`. `pack` makes weight
files for models that were never built in memory.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any, final

if TYPE_CHECKING:
    from edgenas_runtime.weight_streaming.packing import pack as pack


@final
class _Callable(ModuleType):
    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call `edgenas_runtime.weight_streaming.streamed.stream`, importing torch only now."""
        from edgenas_runtime.weight_streaming.streamed import stream  # noqa: PLC0415 - imports torch

        return stream(*arguments, **named)


def __getattr__(name: str) -> Any:
    """`pack`, with torch imported only when it is asked for."""
    if name == "pack":
        from edgenas_runtime.weight_streaming.packing import pack  # noqa: PLC0415 - imports torch

        return pack
    raise AttributeError(f"module 'edgenas_runtime.weight_streaming' has no attribute {name!r}")


sys.modules[__name__].__class__ = _Callable
