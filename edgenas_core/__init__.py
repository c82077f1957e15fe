"""What all packages use; it imports none of them.

Its import checks that the system is one that edgenas runs on, and that no file of the user hides another
package: `import latency` finds the user's `latency.py` first where it lies beside his script or notebook, or in
the folder in which `python -m` was started.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

_PACKAGES = ("nas", "controller", "rewards", "latency")
"""Packages whose names a file of the user may have as well."""


def _require_posix(system: str) -> None:
    """Refuse Windows, which lacks the file locks and signals of the commands."""
    if system == "win32":
        _refuse(
            "edgenas runs on Linux and macOS; on Windows, install it inside WSL "
            "(https://learn.microsoft.com/windows/wsl/install)"
        )


def _require_own_packages() -> None:
    """Check that the packages are those beside this one.

    Raises:
      ImportError: if the user's file is found instead of one of them, in the user's own program.
    """
    here = Path(__file__).parents[1]
    for name in _PACKAGES:
        spec = find_spec(name)
        if spec is None:
            continue  # a part of edgenas alone, as on a board
        places = [spec.origin] if spec.origin else list(spec.submodule_search_locations or ())
        folder = here / name
        if any(Path(place) not in {folder, folder / "__init__.py"} for place in places):
            _refuse(
                f"edgenas: {places[0]} hides the package {name} of edgenas; rename it, or work in "
                f"another folder"
            )


def _refuse(message: str) -> NoReturn:
    """End a command with one line and status 2; in the user's own program, raise ImportError."""
    if _is_command():
        sys.stderr.write(f"{message}\n")
        sys.exit(2)
    raise ImportError(message)


def _is_command() -> bool:
    """Whether this process is `python -m` or the console command, and not the user's own program."""
    started = (getattr(sys, "argv", None) or [""])[0]
    return Path(started).stem in {"-m", "__main__", "edgenas"}  # edgenas.exe on Windows


_require_posix(sys.platform)
_require_own_packages()
