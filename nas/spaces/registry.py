"""Search spaces by name: those of the package, and plug-ins by entry point `edgenas.spaces`.

An entry point names a module attribute that is a `SearchSpace`, or a function that returns one::

    [project.entry-points."edgenas.spaces"]
    my_space = "my_package.space:MY_SPACE"
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points

from nas.spaces.base import SearchSpace
from runtime.shell.errors import UserError, did_you_mean

GROUP = "edgenas.spaces"

_BUILT_IN = {
    "nas_bench_201": "nas.spaces.nas_bench_201.plugin:SPACE",
    "mobilenet_v3": "nas.spaces.mobilenet_v3.plugin:SPACE",
    "mobilenet_v3_w1.0": "nas.spaces.mobilenet_v3.plugin:NARROW",
}
"""Found without an installation's metadata, so that a clone works as it is."""


def space_names() -> tuple[str, ...]:
    """Names that `space=` takes, those of the package first."""
    return (*_BUILT_IN, *sorted(_plug_ins().keys() - _BUILT_IN))


@cache
def space_named(name: str) -> SearchSpace:
    """The search space of this name.

    Raises:
      UserError: if there is none, or its plug-in cannot be imported or is no search space.
    """
    if name not in space_names():
        raise UserError(
            f"space={name} is not one of {', '.join(space_names())}, and a plug-in is registered by the "
            f"entry point {GROUP!r} (docs/tutorial/your-own-space.md)"
            f"{did_you_mean(name, space_names())}"
        )
    point = _plug_ins().get(name)
    if name in _BUILT_IN:
        point = EntryPoint(name, _BUILT_IN[name], GROUP)
    assert point is not None
    try:
        found = point.load()
    except Exception as error:
        raise UserError(
            f"space={name}: its plug-in {point.value} cannot be imported: {error}"
        ) from error
    space = found() if callable(found) and not isinstance(found, SearchSpace) else found
    if not isinstance(space, SearchSpace):
        lacks = sorted(_members() - set(dir(space)))
        raise UserError(
            f"space={name}: {point.value} is no search space; it lacks {', '.join(lacks)}"
        )
    if space.name != name:
        raise UserError(f"space={name}: {point.value} calls itself {space.name!r}")
    return space


def _plug_ins() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}


def _members() -> set[str]:
    """Names that a search space has, from the protocol and those it inherits from."""
    parts = [part for part in SearchSpace.__mro__ if part.__module__ not in {"typing", "builtins"}]
    names = {name for part in parts for name in (*part.__annotations__, *vars(part))}
    return {name for name in names if not name.startswith("_")}
