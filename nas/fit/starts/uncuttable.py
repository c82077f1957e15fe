"""The error of a network file that cannot be cut."""

from __future__ import annotations

from pathlib import Path
from typing import final

from edgenas_core.types.errors import UserError


@final
class UncuttableFileError(UserError):
    """A file that can be timed and quantised, but not cut; the message says why."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(reason)
        self.path = path
