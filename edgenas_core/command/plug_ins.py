"""Parts of other packages, found by name through the entry points `edgenas.<part>`."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from edgenas_core.types.errors import UserError

GROUPS = {
    "space": "edgenas.spaces",
    "reward": "edgenas.rewards",
    "controller": "edgenas.controllers",
    "accuracy": "edgenas.accuracy",
    "latency": "edgenas.latency",
}
"""Entry point group of each setting that a plug-in can extend."""


@cache
def every_entry_point() -> Any:  # its type differs between versions of Python
    """Entry points of all installed distributions, whose metadata is read once."""
    return entry_points()


def plug_ins(setting: str) -> dict[str, EntryPoint]:
    """Entry points that extend a setting, by the name that the setting takes."""
    return {point.name: point for point in every_entry_point().select(group=GROUPS[setting])}


def load(setting: str, point: EntryPoint) -> Any:
    """Import the object that an entry point names.

    Raises:
      UserError: if it cannot be imported.
    """
    try:
        return point.load()
    except (Exception, SystemExit) as error:
        raise UserError(
            f"{setting}={point.name}: its plug-in {point.value} cannot be imported: {error}"
        ) from error
