"""Search spaces by name: those of the package, plug-ins by entry point, and objects of this process.

An entry point names a module attribute that is a `SearchSpace`, or a function that returns one::

    [project.entry-points."edgenas.spaces"]
    my_space = "my_package.space:MY_SPACE"
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint

from common.command.plug_ins import GROUPS, load, plug_ins
from common.types.errors import UserError, did_you_mean
from nas.spaces.base import SearchSpace

_BUILT_IN = {
    "nas_bench_201": "nas.spaces.nas_bench_201.plugin:SPACE",
    "mobilenet_v3": "nas.spaces.mobilenet_v3.plugin:SPACE",
    "mobilenet_v3_w1.0": "nas.spaces.mobilenet_v3.plugin:NARROW",
}
"""Found without an installation's metadata, so that a clone works as it is."""

_GIVEN: dict[str, SearchSpace] = {}
"""Spaces that were given as objects in this process, by name."""


def space_names() -> tuple[str, ...]:
    """Names that `space=` takes, those of the package first."""
    others = plug_ins()["space"].keys() | _GIVEN.keys()
    return (*_BUILT_IN, *sorted(others - _BUILT_IN.keys()))


def give_space(space: object) -> str:
    """Make a search space known in this process, and return its name.

    Raises:
      UserError: if it is no search space, or a space of the package or a plug-in has its name.
    """
    found = _checked("space", type(space).__name__, space)
    if found.name in _BUILT_IN or found.name in plug_ins()["space"]:
        if space_named(found.name) is not found:
            raise UserError(f"space={found.name} is the name of another space; choose another name")
        return found.name
    _GIVEN[found.name] = found
    return found.name


def space_named(name: str) -> SearchSpace:
    """The search space of this name.

    Raises:
      UserError: if there is none, or its plug-in cannot be imported or is no search space.
    """
    return _GIVEN[name] if name in _GIVEN else _loaded(name)


@cache
def _loaded(name: str) -> SearchSpace:
    if name in _BUILT_IN:
        point = EntryPoint(name, _BUILT_IN[name], GROUPS["space"])
    elif (plug_in := plug_ins()["space"].get(name)) is not None:
        point = plug_in
    else:
        raise UserError(
            f"space={name} is not one of {', '.join(space_names())}, and a plug-in is registered by the "
            f"entry point {GROUPS['space']!r} (docs/tutorial/your-own-space.md)"
            f"{did_you_mean(name, space_names())}"
        )
    found = load("space", point)
    found = found() if callable(found) and not isinstance(found, SearchSpace) else found
    space = _checked(f"space={name}", point.value, found)
    if space.name != name:
        raise UserError(f"space={name}: {point.value} calls itself {space.name!r}")
    return space


def _checked(setting: str, what: str, found: object) -> SearchSpace:
    if not isinstance(found, SearchSpace):
        lacks = sorted(_members() - set(dir(found)))
        raise UserError(f"{setting}: {what} is no search space; it lacks {', '.join(lacks)}")
    return found


def _members() -> set[str]:
    """Names that a search space has, from the protocol and those it inherits from."""
    parts = [part for part in SearchSpace.__mro__ if part.__module__ not in {"typing", "builtins"}]
    names = {name for part in parts for name in (*part.__annotations__, *vars(part))}
    return {name for name in names if not name.startswith("_")}
