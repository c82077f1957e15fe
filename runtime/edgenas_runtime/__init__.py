"""Runs many networks on one machine, or one that is larger than its memory: `run` and `stream`."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

import edgenas_core as _edgenas_core  # noqa: F401 - checks that no file of the user hides a package

if TYPE_CHECKING:
    from edgenas_runtime.lanes.serving import run as run
    from edgenas_runtime.weight_streaming.streamed import stream as stream


def __getattr__(name: str) -> Any:
    """`run` and `stream`, with torch imported only when they are asked for."""
    if name == "run":
        from edgenas_runtime.lanes.serving import run  # noqa: PLC0415 - slow, and most who import need another

        return run
    if name == "stream":
        # a package that is called as the function
        return import_module("edgenas_runtime.weight_streaming")
    raise AttributeError(f"module 'edgenas_runtime' has no attribute {name!r}")
