"""The commands on one network as functions, and how arguments of functions become settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

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

Settings: TypeAlias = Mapping[str, Any]
File: TypeAlias = str | Path

_NO_SETTINGS = {"settings", "progress", "quiet"}
"""Arguments that are no settings of a command."""


def train(
    *,
    run: File | None = None,
    arch: str | int | None = None,
    space: str | SearchSpace | None = None,
    data: File | None = None,
    task: str | None = None,
    learner: str | Learner | None = None,
    recipe: str | None = None,
    epochs: int | None = None,
    hours: float | None = None,
    seed: int | None = None,
    device: str | None = None,
    runs: File | None = None,
    settings: Settings | None = None,
    quiet: bool = False,
) -> Path:
    """Train a network in full on own images: `python -m nas.train`; the same call goes on.

    Args:
      run: folder of a finished search.
      arch: another architecture, its text or number.
      space: as in `search`.
      data: own images, as in `search`; those of the run by default.
      task: as in `search`.
      learner: as in `search`.
      recipe: "nas_bench_201" or "modern".
      epochs: number of epochs.
      hours: time that the epochs must fit in.
      seed: of the weights and the order of the images.
      device: "auto", "cpu", "cuda" or "cuda:1".
      runs: folder that a training without a run goes into.
      settings: further settings by name.
      quiet: print nothing.

    Returns the folder of the trained network.

    Raises:
      UserError: if there is no such network, or the training diverges or does not fit.
    """
    chosen = chosen_settings(locals())
    with typed_call("nas.train", "train", TrainConfig, chosen) as config:
        return train_command.train_into_folder(config, PlainConsole(quiet=quiet))


def export(
    *,
    run: File | None = None,
    arch: str | int | None = None,
    space: str | SearchSpace | None = None,
    weights: File | None = None,
    data: File | None = None,
    task: str | None = None,
    learner: str | Learner | None = None,
    dataset: str | None = None,
    which: str | None = None,
    precision: str | None = None,
    batch: int | str | None = None,
    device: str | None = None,
    out: File | None = None,
    settings: Settings | None = None,
    quiet: bool = False,
) -> Path:
    """Write a network as PyTorch, ONNX, scripts and a card: `python -m nas.export`.

    Args:
      run: folder of a finished search or of a trained network.
      arch: instead, an architecture, its text or number.
      space: as in `search`.
      weights: folder of a trained network, or a safetensors file.
      data: own images, as in `search`; those of the training by default.
      task: as in `search`.
      learner: as in `search`.
      dataset: a data set of the space, without images.
      which: "best", "mode" or "optimum" of the run.
      precision: "fp32", "fp16", "int8" or "all".
      batch: images of one inference, or "dynamic".
      device: address of a board that times the files, or "here".
      out: folder to write.
      settings: further settings by name.
      quiet: print nothing.

    Returns the folder.

    Raises:
      UserError: if there is no such network, or a file differs from the network.
    """
    chosen = chosen_settings(locals())
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
