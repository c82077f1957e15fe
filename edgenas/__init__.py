"""Hardware-aware neural architecture search as a library: `edgenas.search(T="17ms")`.

Each function is the command of its name, with typed keyword arguments: the same defaults, messages and
folders. What the command prints in one line is raised as `UserError`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from common.types.errors import UserError as UserError
    from edgenas.api import export as export
    from edgenas.api import measure as measure
    from edgenas.api import search as search
    from edgenas.api import study as study
    from edgenas.api import train as train
    from edgenas.api import transfer as transfer
    from edgenas.found import Found as Found
    from edgenas.found import Page as Page
    from edgenas.found import Study as Study

__all__ = [
    "Found", "Page", "Study", "UserError", "export", "measure", "search", "study", "train", "transfer"
]  # fmt: skip

_WHERE = {"Found": "found", "Page": "found", "Study": "found"}


def __getattr__(name: str) -> Any:
    """Import a function or class when it is first asked for, so that `import edgenas` is quick."""
    from importlib import import_module  # noqa: PLC0415 - `edgenas.` lists what is ours
    from importlib.metadata import version  # noqa: PLC0415 - likewise

    if name == "__version__":
        return version("edgenas")
    if name == "UserError":
        return import_module("common.types.errors").UserError
    if name in __all__:
        return getattr(import_module(f"edgenas.{_WHERE.get(name, 'api')}"), name)
    raise AttributeError(f"module 'edgenas' has no attribute {name!r}")
