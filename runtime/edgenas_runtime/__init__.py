"""Runs many networks on the lanes of one machine; `edgenas_runtime.run` is the one line to begin with."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgenas_runtime.lanes.serving import run as run
    from edgenas_runtime.weight_streaming.streamed import stream as stream


def __getattr__(name: str) -> Any:
    """`run` and `stream`, with torch imported only when they are asked for."""
    if name == "run":
        from edgenas_runtime.lanes.serving import run  # noqa: PLC0415 - slow, and most who import need another

        return run
    if name == "stream":
        return import_module(
            "edgenas_runtime.weight_streaming"
        )  # a package that is called as the function
    raise AttributeError(f"module 'runtime' has no attribute {name!r}")
