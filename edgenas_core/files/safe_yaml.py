"""Reading of YAML files that others wrote: plain values, of bounded size and depth.

A value is text, a number, true, false, null, a list or a mapping. Aliases, which can hold themselves
or grow without bound, and texts with `${`, which OmegaConf would interpolate, are refused.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from edgenas_core.files.safe_file import read_text
from edgenas_core.types.errors import UserError

_LARGEST = 2**18  # bytes: PyYAML takes a second for them
_DEEPEST = 20


def load_yaml(path: Path, most: int = _LARGEST, *, may_repeat: bool = False) -> Any:
    """Mapping or list of a YAML file, with numbers as Hydra reads them.

    Args:
      path: of the file.
      most: bytes of the largest file that is read.
      may_repeat: a name may be given twice, and the last value counts; numbers are those of plain YAML.

    Raises:
      UserError: if it is no YAML, too large or too deep, or holds more than plain values.
      OSError: if it cannot be read.
    """
    text = read_text(path, most)
    try:
        _require_plain(text)
        if may_repeat:
            return yaml.load(text, yaml.SafeLoader)
        return OmegaConf.to_container(OmegaConf.load(io.StringIO(text)))
    except (yaml.YAMLError, OmegaConfBaseException, OSError, ValueError, TypeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"{path} is no YAML file of plain values: {reason}") from error


def load_settings(path: Path) -> dict[str, Any]:
    """Settings that a run or study stored, by name.

    Raises:
      UserError: if it is no such file.
      OSError: if it cannot be read.
    """
    value = load_yaml(path)
    if not isinstance(value, dict):
        raise UserError(f"{path} holds no settings")
    return value


def flat(value: Any, name: str = "") -> dict[str, Any]:
    """Settings by their full names, as in `latency.python`."""
    if not isinstance(value, Mapping) or not value:
        return {name: value}
    each = (flat(inner, f"{name}.{key}".lstrip(".")) for key, inner in value.items())
    return {key: inner for part in each for key, inner in part.items()}


def _require_plain(text: str) -> None:
    depth = 0
    for event in yaml.parse(text, yaml.SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise ValueError(f"it has more than {_DEEPEST} parts within parts")
        if isinstance(event, yaml.AliasEvent):
            raise TypeError(f"it has the alias *{event.anchor}; write the value out")
        if isinstance(event, yaml.ScalarEvent) and "${" in event.value:
            raise ValueError(f"{event.value[:60]!r} would be interpolated")
