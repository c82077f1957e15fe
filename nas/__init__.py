"""Hardware-aware neural architecture search: the space, the sources, the loop, the commands."""

import sys
from importlib.util import find_spec
from pathlib import Path

for _name in ("latency", "controller", "rewards", "conf"):
    # `python -m` looks into the user's folder first
    _spec = find_spec(_name)
    _origin = None if _spec is None else _spec.origin
    if _origin is None or Path(_origin).parents[1] != Path(__file__).parents[1]:
        _message = (
            f"edgenas: {_origin or _name} hides a package of edgenas; rename it, work in another folder, or "
            f"use the command `edgenas` instead of `python -m`"
        )
        if sys.argv[0] == "-m":  # while Python looks for the module of `python -m nas.search`
            sys.stderr.write(f"{_message}\n")
            sys.exit(2)
        raise ImportError(_message)
