"""Reading of YAML files that others wrote: plain values, of bounded size and depth.

A value is text, a number, true, false, null, a list or a mapping. Aliases, which can hold themselves
or grow without bound, and texts with `${`, which OmegaConf would interpolate, are refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from omegaconf._utils import get_yaml_loader

from common.files.safe_file import read_text
from common.types.errors import UserError

_LARGEST = 2**18  # bytes: PyYAML takes a second for them
_DEEPEST = 20
_INT64 = 2**63
_PATH_TAGS = "tag:yaml.org,2002:python/object/apply:pathlib."  # that OmegaConf writes


class _Loader(get_yaml_loader()):  # type: ignore[misc] # a SafeLoader without dates
    """OmegaConf's loader; of a name that is given twice the last value counts, as in plain YAML."""

    construct_mapping = yaml.SafeLoader.construct_mapping


def load_yaml(path: Path, most: int = _LARGEST) -> Any:
    """Value of a YAML file of at most so many bytes; numbers are read as Hydra reads them.

    Raises:
      UserError: if it is no YAML, too large or too deep, or holds more than plain values.
      OSError: if it cannot be read.
    """
    text = read_text(path, most)
    try:
        _require_plain(text)
        value = yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
        _require_int64(value)
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"{path} is no YAML file of plain values: {reason}") from error
    return value


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


def _require_plain(text: str) -> None:
    level = 0
    for event in yaml.parse(text, yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise ValueError(  # noqa: TRY004 - of a file
                f"it has the alias *{event.anchor}; write the value out"
            )
        if isinstance(event, yaml.ScalarEvent) and "${" in event.value:
            raise ValueError(f"{event.value[:60]!r} would be interpolated")
        tag = getattr(event, "tag", None)
        if tag is not None and not tag.startswith(_PATH_TAGS):
            raise ValueError(f"it has the tag {tag}")
        level += isinstance(event, yaml.CollectionStartEvent)
        level -= isinstance(event, yaml.CollectionEndEvent)
        if level > _DEEPEST:
            raise ValueError(f"it has more than {_DEEPEST} parts within parts")


def _require_int64(value: Any) -> None:
    if isinstance(value, (dict, list)):
        for inner in value.values() if isinstance(value, dict) else value:
            _require_int64(inner)
    elif isinstance(value, int) and abs(value) >= _INT64:
        raise ValueError("it holds an integer of more than 64 bits")
