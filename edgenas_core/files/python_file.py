"""Objects of a Python file of the user, which the command line names as FILE.py:NAME."""

from __future__ import annotations

import sys
from hashlib import sha256
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from edgenas_core.types.errors import UserError


def object_of(path: Path, name: str) -> Any:
    """Run a file and return an object of it, whose classes other processes get by value.

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
    exec(code, module.__dict__)  # noqa: S102 - the command line names the file
    cloudpickle.register_pickle_by_value(module)
    if not hasattr(module, name):
        names = [
            key
            for key, value in vars(module).items()
            if getattr(value, "__module__", "") == module_name
        ]
        raise UserError(f"{path} has no {name}; it has {', '.join(names) or 'no function'}")
    return getattr(module, name)
