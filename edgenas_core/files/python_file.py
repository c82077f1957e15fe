"""Objects of a Python file of the user, which the command line names as FILE.py:NAME."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from edgenas_core.types.errors import UserError

_OURS = ("edgenas", "nas.", "controller.", "rewards.", "latency.", "conf.")
"""Beginnings of the names of our modules, which other processes import."""


def object_of(path: Path, name: str) -> Any:
    """Run a file and return an object of it, whose classes other processes get by value.

    The file finds modules beside it, as `python FILE` does; other processes get these by value, too.

    Raises:
      UserError: if the file has no such object.
      Exception: whatever the file raises.
    """
    import cloudpickle  # noqa: PLC0415 - as it is needed

    module_name = f"edgenas_own_{sha256(str(path).encode()).hexdigest()[:8]}"
    spec = spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be imported")
    module = sys.modules[module_name] = module_from_spec(spec)
    code = compile(path.read_bytes(), str(path), "exec")  # no bytecode of an earlier version
    with _folder_first(path.parent):
        exec(code, module.__dict__)  # noqa: S102 - the command line names the file
    for each in [module, *_modules_of(path.parent)]:
        cloudpickle.register_pickle_by_value(each)
    if not hasattr(module, name):
        names = [
            key
            for key, value in vars(module).items()
            if getattr(value, "__module__", "") == module_name
        ]
        raise UserError(f"{path} has no {name}; it has {', '.join(names) or 'no function'}")
    return getattr(module, name)


@contextmanager
def _folder_first(folder: Path) -> Iterator[None]:
    """Look for modules in a folder first; afterwards in it last, for what its functions import."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        if str(folder) not in sys.path:
            sys.path.append(str(folder))


def _modules_of(folder: Path) -> list[ModuleType]:
    """Imported modules whose files lie in a folder, but for installed packages."""
    files = {name: getattr(module, "__file__", None) for name, module in sys.modules.items()}
    return [
        sys.modules[name]
        for name, file in files.items()
        if file and name != "__main__" and Path(file).is_relative_to(folder)
        if "site-packages" not in file and not f"{name}.".startswith(_OURS)
    ]
