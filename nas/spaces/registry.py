"""Search spaces by name: those of the package, plug-ins by entry point, and objects of this process.

An entry point names a module attribute that is a `SearchSpace`, or a function that returns one::

    [project.entry-points."edgenas.spaces"]
    my_space = "my_package.space:MY_SPACE"
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint

from omegaconf import OmegaConf

from edgenas_core.command.conf_folder import CONF
from edgenas_core.command.plug_ins import GROUPS, load, missing_extra, plug_ins
from edgenas_core.types.errors import UserError, not_one_of
from nas.spaces.base import SearchSpace

SPACES = {
    "nas_bench_201": "nas.spaces.nas_bench_201.plugin:SPACE",
    "elastic": "nas.fit.starts.elastic.loading:named_space",
    "pretrained": "nas.fit.starts.pretrained.space:pretrained_space",
    "residual": "nas.spaces.residual:SPACE",
}
"""Spaces of the package, for a clone that is not installed."""

_GIVEN: dict[str, SearchSpace] = {}
"""Spaces that were given as objects in this process, by name."""


def plug_ins_of(setting: str) -> dict[str, EntryPoint]:
    """Entry points that extend a setting, the package's own first."""
    ours = SPACES if setting == "space" else {}
    points = {name: EntryPoint(name, value, GROUPS[setting]) for name, value in ours.items()}
    return points | plug_ins(setting)


def space_names() -> tuple[str, ...]:
    """Names that `space=` takes, the package's own first."""
    return tuple(dict.fromkeys([*plug_ins_of("space"), *_GIVEN]))


def default_space() -> str:
    """Name of the space of a command that names none, as in conf/default_space.yaml."""
    return str(OmegaConf.load(CONF / "default_space.yaml").space)


def default_of(name: str, setting: str) -> str | int | list[str] | None:
    """Default of a setting for a space, or all its values as text; conf/*.yaml asks for them.

    Where there is no such space, nothing in particular: the command refuses it by its name.
    """
    try:
        space = space_named(name)
    except UserError:
        nothing: dict[str, int | list[str]] = {"devices": [], "epochs": 1}
        return nothing.get(setting)
    device = space.default_device
    defaults: dict[str, str | int | list[str] | None] = {
        "device": device,
        "devices": [] if device is None else [device],
        "dataset": space.default_task,
        "epochs": space.tasks[space.default_task].epochs,
        "datasets": ", ".join(space.tasks),
        "spaces": ", ".join(space_names()),
    }
    return defaults[setting]


def give_space(space: object) -> str:
    """Make a search space known in this process, and return its name.

    Raises:
      UserError: if it is no search space, or a space of the package or a plug-in has its name.
    """
    checked = _checked("space", type(space).__name__, space)
    if checked.name in plug_ins_of("space"):
        if space_named(checked.name) is not checked:
            raise UserError(
                f"space={checked.name} is the name of another space; choose another name"
            )
        return checked.name
    _GIVEN[checked.name] = checked
    return checked.name


def is_object(name: str) -> bool:
    """Whether a space is an object of this process, which no command knows."""
    return name in _GIVEN


def space_named(name: str) -> SearchSpace:
    """The search space of this name.

    Raises:
      UserError: if there is none, or its plug-in cannot be imported or is no search space.
    """
    return _GIVEN[name] if name in _GIVEN else _loaded(name)


@cache
def _loaded(name: str) -> SearchSpace:
    plug_in, _, argument = name.partition(":")
    point = plug_ins_of("space").get(plug_in)
    if point is None:
        if missing := missing_extra(GROUPS["space"], plug_in, f"space={plug_in}"):
            raise UserError(missing)
        see = f"a plug-in registers by the entry point {GROUPS['space']!r} (docs/tutorial/your-own-space.md)"
        raise not_one_of("space", name, space_names(), see)
    part = load("space", point)
    if callable(part) and not isinstance(part, SearchSpace):
        part = part(argument) if argument else part()
    elif argument and hasattr(part, "with_argument"):
        part = part.with_argument(argument)
    space = _checked(f"space={name}", point.value, part)
    if space.name != name:
        raise UserError(f"space={name}: {point.value} calls itself {space.name!r}")
    return space


def _checked(setting: str, what: str, part: object) -> SearchSpace:
    if not isinstance(part, SearchSpace):
        lacks = sorted(_members() - set(dir(part)))
        raise UserError(f"{setting}: {what} is no search space; it lacks {', '.join(lacks)}")
    return part


def _members() -> set[str]:
    """Names of the members of the search space protocol and of its bases."""
    parts = [part for part in SearchSpace.__mro__ if part.__module__ not in {"typing", "builtins"}]
    names = {name for part in parts for name in (*part.__annotations__, *vars(part))}
    return {name for name in names if not name.startswith("_")}
