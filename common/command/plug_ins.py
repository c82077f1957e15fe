"""Parts of other packages, found by name through the entry points `edgenas.<part>`."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Any

from common.types.errors import UserError

GROUPS = {
    "space": "edgenas.spaces",
    "reward": "edgenas.rewards",
    "controller": "edgenas.controllers",
    "accuracy": "edgenas.accuracy",
    "latency": "edgenas.latency",
}
"""Entry point group of each setting that a plug-in can extend."""


def plug_ins() -> dict[str, dict[str, EntryPoint]]:
    """Entry points that extend each setting, by the name that the setting takes."""
    found = entry_points()  # reads the metadata of every installed distribution
    return {
        setting: {point.name: point for point in found.select(group=group)}
        for setting, group in GROUPS.items()
    }


def load(setting: str, point: EntryPoint) -> Any:
    """Import the object that an entry point names.

    Raises:
      UserError: if it cannot be imported.
    """
    try:
        return point.load()
    except Exception as error:
        raise UserError(
            f"{setting}={point.name}: its plug-in {point.value} cannot be imported: {error}"
        ) from error
