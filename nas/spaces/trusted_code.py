"""Code of the user that spaces run: only what the command line of this process names."""

from __future__ import annotations

import shlex
from pathlib import Path

from edgenas_core.types.errors import UserError

MARK = ".py:"
"""What a pool that runs code holds."""

_TRUSTED: set[str] = set()


def absolute(text: str) -> str:
    """Text with its leading file path made absolute."""
    path, mark, name = text.partition(":")
    file = Path(path).expanduser()
    return f"{file.absolute()}{mark}{name}" if path and (mark or file.exists()) else text


def trust(space: str, network: str | None = None) -> None:
    """Let the functions run that settings of the command line name; stored names alone run nothing."""
    _TRUSTED.update(_items(space), map(absolute, _items(network or "")))


def export_command(folder: dict[str, str], space: str, data: str | None) -> str:
    """The command that exports a network; it repeats the code of its space, and its learner."""
    from edgenas_core.command.hydra_command import word  # noqa: PLC0415 - networks are built without Hydra

    functions = ",".join(item for item in _items(space) if MARK in item)
    learner = (data or "").partition("learner:")[2]
    settings = {**folder, "network": functions, "learner": learner}
    words = [word(name, value) for name, value in settings.items() if value]
    return shlex.join(["python", "-m", "nas.export", *words])


def _items(space: str) -> list[str]:
    """Functions, among what else the name of a space holds."""
    return space.removeprefix("elastic:").rpartition("pretrained:")[2].split(",")


def require_trusted(function: str) -> None:
    """Refuse a function that only a stored file names.

    Raises:
      UserError: if the command line does not name it.
    """
    if function not in _TRUSTED:
        raise UserError(
            f"the networks are built by Python code; if you trust it, add network={function}"
        )
