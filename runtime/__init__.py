"""Runs many networks on the lanes of one machine; `runtime.run` is the one line to begin with."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runtime.serving import run as run


def __getattr__(name: str) -> Any:
    """`run`, with torch imported only when it is asked for."""
    if name == "run":
        from runtime.serving import run  # noqa: PLC0415 - slow, and most who import need another

        return run
    raise AttributeError(f"module 'runtime' has no attribute {name!r}")
