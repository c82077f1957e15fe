"""Settings as fields of dataclasses: name, type, default, unit and sentence stand there, once.

`--help`, the reference, the completion of a shell and the keyword types of the library are made of them.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, final, get_args, get_origin, get_type_hints

from omegaconf import MISSING as NO_DEFAULT
from omegaconf import DictConfig, ListConfig, OmegaConf

_WIDTH = 100
_INDENT = 22
"""Column of the sentences in a help text."""


def setting(
    default: Any, sentence: str, *, unit: str = "", unset: str = "", heading: str = ""
) -> Any:
    """A field of a dataclass of settings.

    Args:
      default: value where the user gives none; omegaconf's MISSING where he must, or a YAML file has it.
      sentence: what the setting is.
      unit: of its numbers; `path` of a text that names a file or folder.
      unset: what happens where the value is None.
      heading: title of the section of the help that begins here.
    """
    about = {"sentence": sentence, "unit": unit, "unset": unset, "heading": heading}
    if isinstance(default, list):
        return field(default_factory=lambda: [*default], metadata=about)
    return field(default=default, metadata=about)


def group(kind: type[Any], *, heading: str = "") -> Any:
    """A field that holds further settings, which are named `<field>.<setting>`."""
    return field(default_factory=kind, metadata={"heading": heading})


@final
@dataclass(frozen=True)
class Setting:
    """One setting of a command, as its dataclass describes it."""

    name: str  # with the names of its groups: timing.samples
    kind: Any  # type of its values
    default: Any
    sentence: str
    unit: str
    unset: str
    heading: str

    @property
    def type_text(self) -> str:
        """Type of the values, or the values of an Enum, and the unit."""
        kinds = [kind for kind in alternatives(self.kind) if kind is not NoneType]
        if self.unit == "path":
            return "path"
        return ", ".join(filter(None, [" or ".join(map(_kind_text, kinds)), self.unit]))

    def default_text(self, value: Any) -> str:
        """The default as on the command line, or what happens where it is None."""
        if value is None:
            return f": {self.unset}" if self.unset else " none"
        return f" {self._value_text(value)}"

    def _value_text(self, value: Any) -> str:
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, Enum):
            return value.name
        if isinstance(value, list | ListConfig):
            return f"[{','.join(map(self._value_text, value))}]"
        return f"{value:g}" if isinstance(value, float) else str(value)


def settings_of(schema: type[Any], prefix: str = "", heading: str = "") -> Iterator[Setting]:
    """Settings of a dataclass, those of its bases after its own, with those of its groups."""
    kinds = get_type_hints(schema)
    own = schema.__annotations__
    for each in sorted(fields(schema), key=lambda each: each.name not in own):
        about, kind = each.metadata, kinds[each.name]
        first = about.get("heading") or heading
        heading = ""
        default = each.default if each.default_factory is MISSING else each.default_factory()
        if is_dataclass(default):
            yield from settings_of(kind, f"{prefix}{each.name}.", first)
            continue
        yield Setting(
            f"{prefix}{each.name}",
            kind,
            NO_DEFAULT if default is MISSING else default,
            about.get("sentence", ""),
            about.get("unit", ""),
            about.get("unset", ""),
            first,
        )


def help_text(about: str, schema: type[Any], composed: DictConfig, names: Mapping[str, str]) -> str:
    """What `--help` prints: a command's purpose and examples, then its settings.

    Args:
      about: the purpose and examples.
      schema: dataclass of the settings.
      composed: values, which stand as defaults.
      names: those that were chosen for groups of settings.
    """
    lines = [about.strip(), ""]
    described = [*settings_of(schema), *_of_parts(schema, composed, names)]
    for each in described:
        if not each.sentence:
            continue
        if each.heading:
            lines.append(f"  {each.heading}:")
        value = names.get(each.name) or OmegaConf.select(composed, each.name)
        if each.unset and each.default == NO_DEFAULT:  # depends on settings that are not known yet
            value = None
        about_values = f" ({each.type_text}; default{each.default_text(value)})"
        lines += _two_columns(each.name, each.sentence.rstrip(".") + about_values)
    return "\n".join(lines) + "\n"


def _of_parts(
    schema: type[Any], composed: DictConfig, names: Mapping[str, str]
) -> Iterator[Setting]:
    """Settings of the parts that are chosen by their names, such as latency=probe."""
    for part in settings_of(schema):
        kind = OmegaConf.get_type(composed, part.name) if is_dataclass(part.kind) else None
        if kind is not None:
            heading = f"Settings of {part.name}={names.get(part.name)}"
            for each in filter(lambda each: each.sentence, settings_of(kind)):
                yield replace(each, name=f"{part.name}.{each.name}", heading=heading)
                heading = ""


def _two_columns(name: str, text: str) -> list[str]:
    """A name, and a text beside it; below it where the name is too long."""
    lines = textwrap.wrap(text, _WIDTH - _INDENT, break_long_words=False, break_on_hyphens=False)
    head = f"    {name}"
    if len(head) + 2 > _INDENT:
        return [head, *(" " * _INDENT + line for line in lines)]
    return [head.ljust(_INDENT) + lines[0], *(" " * _INDENT + line for line in lines[1:])]


def alternatives(kind: Any) -> tuple[Any, ...]:
    """The types of a union; a type alone is the only one."""
    return get_args(kind) if get_origin(kind) in {Union, UnionType} else (kind,)


def _kind_text(kind: Any) -> str:
    if isinstance(kind, type) and issubclass(kind, Enum):
        names = [member.name for member in kind]
        return " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
    if is_dataclass(kind):
        return "name"
    if get_origin(kind) is list:
        return f"list of {_kind_text(get_args(kind)[0])}"
    return {str: "text", Path: "path", bool: "true or false", Any: "text"}.get(
        kind, getattr(kind, "__name__", "")
    )
