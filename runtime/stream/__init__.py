"""Networks larger than their memory: weights are read, copied and used layer by layer.

The package itself is called as the function: `runtime.stream(model, budget="64MB")`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any, final


@final
class _Callable(ModuleType):
    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """As `runtime.stream.streamed.stream`, imported with torch only when it is called."""
        from runtime.stream.streamed import stream  # noqa: PLC0415 - slow, and planners need it not

        return stream(*arguments, **named)


sys.modules[__name__].__class__ = _Callable
