"""Parts of other packages, found by name through the entry points `edgenas.<part>`."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution, entry_points
from typing import Any, final
from urllib.parse import urlsplit
from urllib.request import url2pathname

from edgenas_core.types.errors import UserError

GROUPS = {
    "space": "edgenas.spaces",
    "reward": "edgenas.rewards",
    "controller": "edgenas.controllers",
    "accuracy": "edgenas.accuracy",
    "latency": "edgenas.latency",
}
"""Entry point group of each setting that a plug-in can extend."""

COMMANDS = "edgenas.commands"
"""Entry point group of commands: each object is a `Command`."""

INFERENCE = "edgenas.inference"
"""Entry point group of functions that prepare an inference in a special way, such as `streamed`."""

_EXTRAS = {
    (COMMANDS, "map"): "runtime",
    (INFERENCE, "streamed"): "runtime",
    (GROUPS["latency"], "mapped"): "runtime",
    (GROUPS["latency"], "blocks"): "mobilenet-v3",
    (GROUPS["accuracy"], "ofa"): "mobilenet-v3",
    (GROUPS["space"], "mobilenet_v3"): "mobilenet-v3",
    (GROUPS["space"], "mobilenet_v3_w1.0"): "mobilenet-v3",
}
"""Extra of edgenas that installs an entry point, by its group and name."""


@final
@dataclass(frozen=True)
class Command:
    """A command of `edgenas`."""

    module: str  # of its function `main`, which takes the words after the command's name
    purpose: str  # in `edgenas --help`, as a verb and its object


@cache
def every_entry_point() -> Any:  # its type differs between versions of Python
    """Entry points of all installed distributions, whose metadata is read once."""
    return entry_points()


def in_group(group: str) -> dict[str, EntryPoint]:
    """Entry points of a group by their names."""
    return {point.name: point for point in every_entry_point().select(group=group)}


def plug_ins(setting: str) -> dict[str, EntryPoint]:
    """Entry points that extend a setting, by the name that the setting takes."""
    return in_group(GROUPS[setting])


def load(setting: str, point: EntryPoint) -> Any:
    """Import the object that an entry point names.

    Raises:
      UserError: if it cannot be imported.
    """
    return _imported(point, f"{setting}={point.name}")


def optional(group: str, name: str, needed_by: str) -> Any:
    """Import the object of an entry point that an extra of edgenas installs.

    Args:
      group: group of the entry point.
      name: name of the entry point.
      needed_by: what the user wrote, for the message.

    Raises:
      UserError: if the extra is not installed, or the object cannot be imported.
    """
    require_extra(group, name, needed_by)
    return _imported(in_group(group)[name], needed_by)


def require_extra(group: str, name: str, needed_by: str) -> None:
    """Check that the extra of an entry point is installed; UserError says how to install it."""
    if name not in in_group(group):
        raise UserError(missing_extra(group, name, needed_by))


def missing_extra(group: str, name: str, needed_by: str) -> str | None:
    """How to install an entry point; None if no extra of edgenas brings it."""
    extra = _EXTRAS.get((group, name))
    if extra is None:
        return None
    return f"{needed_by} needs edgenas-{extra}: {how_to_install(extra)}"


def how_to_install(extra: str) -> str:
    """The command that adds an extra of edgenas to the installation at hand, whatever that was made of."""
    try:
        origin = json.loads(distribution("edgenas").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        origin = {}
    address = origin.get("url")
    if address is None:  # from an index
        return f"pip install 'edgenas[{extra}]'"
    if "dir_info" not in origin:  # from a wheel, an sdist or a repository
        return f"pip install 'edgenas[{extra}] @ {address}'"
    folder = url2pathname(urlsplit(address).path)
    if extra in _EXTRAS.values():  # a project of its own in the same clone
        return f"pip install -e {shlex.quote(folder + '/' + extra.replace('-', '_'))}"
    return f"pip install -e {shlex.quote(f'{folder}[{extra}]')}"


def _imported(point: EntryPoint, needed_by: str) -> Any:
    try:
        return point.load()
    except (Exception, SystemExit) as error:
        raise UserError(
            f"{needed_by}: its plug-in {point.value} cannot be imported: {error}"
        ) from error
