"""The commands on one network as functions, and how arguments of functions become settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from edgenas.arguments import takes_settings
from edgenas_core.command.console import PlainConsole
from edgenas_core.command.hydra_command import typed_call
from edgenas_core.types.errors import UserError
from nas.export import command as export_command
from nas.export.config import ExportConfig
from nas.fit.learners.base import Learner
from nas.fit.learners.opened import give_learner
from nas.spaces.base import SearchSpace
from nas.spaces.registry import give_space
from nas.train import command as train_command
from nas.train.config import TrainConfig

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from edgenas.keywords import ExportKeywords, TrainKeywords

Settings: TypeAlias = Mapping[str, Any]
File: TypeAlias = str | Path

_NO_SETTINGS = {"settings", "progress", "quiet"}
"""Arguments that are no settings of a command."""


@takes_settings(TrainConfig)
def train(
    *, settings: Settings | None = None, quiet: bool = False, **keywords: Unpack[TrainKeywords]
) -> Path:
    """Train a network in full on own images: `python -m nas.train`; the same call goes on.

    Args:
      settings: further settings by their full names.
      quiet: print nothing.
      keywords: settings.

    Returns the folder of the trained network.

    Raises:
      UserError: if there is no such network, or the training diverges or does not fit.
    """
    chosen = chosen_settings({**keywords, "settings": settings})
    with typed_call("nas.train", "train", TrainConfig, chosen) as config:
        return train_command.train_into_folder(config, PlainConsole(quiet=quiet))


@takes_settings(ExportConfig)
def export(
    *, settings: Settings | None = None, quiet: bool = False, **keywords: Unpack[ExportKeywords]
) -> Path:
    """Write a network as PyTorch, ONNX, scripts and a card: `python -m nas.export`.

    Args:
      settings: further settings by their full names.
      quiet: print nothing.
      keywords: settings.

    Returns the folder.

    Raises:
      UserError: if there is no such network, or a file differs from the network.
    """
    chosen = chosen_settings({**keywords, "settings": settings})
    with typed_call("nas.export", "export", ExportConfig, chosen) as config:
        return export_command.export(config, PlainConsole(quiet=quiet))


def space_name(space: str | SearchSpace | None) -> str | None:
    """Name of a space; an object becomes known by its own."""
    if space is None or isinstance(space, str):
        return space
    return give_space(space)


def learner_name(learner: str | Learner | None) -> str | None:
    """Name of a learner; an object becomes known by its own."""
    return learner if learner is None or isinstance(learner, str) else give_learner(learner)


def chosen_settings(arguments: Settings) -> Settings:
    """Settings among the arguments of a function, without those left out; files as text."""
    settings = arguments.get("settings")
    if not isinstance(settings, Mapping | None) or not all(
        isinstance(key, str) for key in settings or ()
    ):
        raise UserError(
            f"settings={settings!r:.200} is no mapping from names of settings to values"
        )
    named = {name: value for name, value in arguments.items() if name not in _NO_SETTINGS}
    named["space"] = space_name(arguments["space"]) if "space" in arguments else None
    named["learner"] = learner_name(arguments.get("learner"))
    return {
        name: str(value) if isinstance(value, Path) else value
        for name, value in {**named, **(settings or {})}.items()
        if value is not None
    }
