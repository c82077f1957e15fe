"""Code of the user that spaces run: only what the command line of this process names."""

from __future__ import annotations

import shlex
from pathlib import Path

from common.types.errors import UserError

MARK = ".py:"
"""What a pool that runs code holds."""

_TRUSTED: set[str] = set()


def absolute(text: str) -> str:
    """The text with the path of a file that it begins with, from any folder."""
    path, mark, name = text.partition(":")
    file = Path(path).expanduser()
    return f"{file.absolute()}{mark}{name}" if path and (mark or file.exists()) else text


def trust(text: str) -> None:
    """Let the functions run that a setting of the command line names; stored names alone run nothing."""
    _TRUSTED.update(text.removeprefix("elastic:").rpartition("pretrained:")[2].split(","))


def trusting(space: str) -> str:
    """The setting that a command needs for a space which is built by code; empty for others."""
    return f" space={shlex.quote(space)}" if MARK in space else ""


def require_trusted(function: str, space: str = "pretrained") -> None:
    """Refuse a function that only a stored file names.

    Raises:
      UserError: if the command line does not name it.
    """
    if function not in _TRUSTED:
        raise UserError(
            f"the networks are built by Python code, {function}; if you trust it, add "
            f"space={space}:{function}"
        )
