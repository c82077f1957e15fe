"""Stored settings of a run or study that is resumed: its folder may be another person's.

A folder is data. A stored setting that starts a program, such as the address of a board, counts only if
the command line repeats it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from edgenas_core.command.bounds import require_in_bounds
from edgenas_core.command.hydra_command import word
from edgenas_core.files.safe_yaml import flat
from edgenas_core.types.errors import UserError
from nas.spaces.trusted_code import MARK

_STARTS = ("python", "env")
"""Names of settings that decide which program is started."""

_WAITS = ("latency.on_disturbance", "latency.tolerance")
"""Settings that only say what becomes of times under load, which a resumed run may change."""


def waiting(words: Sequence[str], latency: str) -> list[str]:
    """Words of a resumed run's command line that say how to wait, with the name of the latency source."""
    waits = [text for text in words if text.partition("=")[0] in _WAITS]
    return [*waits, *(text for text in words if waits and text == f"latency={latency}")]


def words_to_repeat(values: Mapping[str, Any], choices: Mapping[str, str]) -> list[str]:
    """Words of the command line that repeat the settings which start programs; usually none."""
    words = [word(name, value) for name, value in _starting(values).items()]
    needs_group = any(text.startswith("latency.") for text in words)
    return [f"latency={choices['latency']}", *words] if needs_group else words


def require_repeated(
    path: Path,
    values: Mapping[str, Any],
    choices: Mapping[str, str],
    composed: DictConfig,
    words: Sequence[str],
) -> None:
    """Check stored values, and that the command line repeats those that start programs and no others.

    Args:
      path: file of the stored settings.
      values: stored settings.
      choices: the name of each group.
      composed: settings of the command line.
      words: its words, without those that may differ.

    Raises:
      UserError: naming what is missing, given in vain, or too large.
    """
    require_in_bounds(values)
    starting = _starting(values)
    names = {text.partition("=")[0] for text in words}
    for name, value in starting.items():
        if name not in names or OmegaConf.select(composed, name) != value:
            repeated = shlex.join(words_to_repeat(values, choices))
            raise UserError(
                f"{path} would start a program: {word(name, value)}; if you trust it, repeat "
                f"what starts programs beside resume=: {repeated}"
            )
    allowed = {*starting, *(["latency"] if starting else [])}
    others = [text for text in words if text.partition("=")[0] not in allowed]
    if others:
        raise UserError(
            f"resume= goes on with the settings in {path}; leave out {' '.join(others)}"
        )


def stored_choices(path: Path, stored: Mapping[str, Any], groups: Sequence[str]) -> dict[str, str]:
    """The name that each group of settings was chosen by.

    Raises:
      UserError: if one is missing or no name.
    """
    choices = stored.get("choices")
    names = choices if isinstance(choices, dict) else {}
    for group in groups:
        if not re.fullmatch(r"\w[\w.-]*", str(names.get(group))):
            raise UserError(f"{path} does not fit this version: it has no name of its {group}")
    return {group: str(names[group]) for group in groups}


def _starting(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for name, value in flat(values).items()
        if "://" in str(value)
        or MARK in str(value)
        or (name.rpartition(".")[2] in _STARTS and value not in (None, []))
    }
