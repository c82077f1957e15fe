"""How a run begins: from settings in a folder of its own, or from the folder of an interrupted run."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, final

import hydra
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from rich.console import Console

from edgenas_core.command.console import say
from edgenas_core.files.atomic_file import write_whole
from edgenas_core.files.safe_yaml import load_settings
from edgenas_core.types.errors import UserError
from nas.config.run_config import Experiment
from nas.config.stored import require_repeated, stored_choices, waiting, words_to_repeat
from nas.report.run_folder import RunFolder, interrupted_run_folder, new_run_folder
from nas.runs.run import OnTrials, Run, nothing
from nas.runs.strategy import Begun, Experiment_co, Strategy

_SOURCES = ("space", "accuracy", "latency", "device", "data")
"""Sources, device and digest of the data that a resumed run must share with its first part."""

_AUTO, _PROBE = "auto", "probe"
"""Names of latency sources: that of a run that names none, and that of a live board."""


@final
@dataclass(frozen=True)
class RunKind(Generic[Experiment_co]):
    """What differs between a search and a fit, from the settings to the strategy."""

    module: str  # of the command: nas.search or nas.fit
    file: str  # of the settings in conf/, without its ending
    groups: Sequence[str]  # settings that choose a part by its name
    build: Callable[[DictConfig], Experiment_co]
    announce: Callable[[Any, Mapping[str, str], str, Console], None]  # experiment, choices, command
    strategy: Callable[[Any], Strategy]  # of what has begun
    current: Callable[[Path, dict[str, Any]], dict[str, Any]]  # stored settings, as in this version


@final
@dataclass(frozen=True)
class _Asked:
    """What a run is begun with; of an interrupted run also its folder and its sources."""

    composed: DictConfig
    choices: Mapping[str, str]
    command: str
    folder: RunFolder | None = None
    sources: Mapping[str, str] = field(default_factory=dict)


def begin(
    kind: RunKind[Experiment_co],
    composed: DictConfig,
    choices: Mapping[str, str],
    words: Sequence[str],
    console: Console,
    *,
    on_trials: OnTrials = nothing,
    began_s: float | None = None,
) -> Run:
    """The run that the settings ask for, announced and with its folder; `complete` searches.

    Args:
      kind: a search, or a fit.
      composed: the settings.
      choices: chosen name of each group.
      words: the settings that differ from the defaults, as on the command line.
      console: prints sources, progress and result.
      on_trials: called with each batch of finished trials.
      began_s: when the time of the run began, on the monotonic clock; None: now.

    Raises:
      UserError: if a setting cannot work, a source cannot answer, or a file is corrupt.
      OSError: if a folder cannot be written.
    """
    began_s = time.monotonic() if began_s is None else began_s
    for text in words:
        if text.startswith(("+", "~")) and not text.startswith("+experiment="):
            raise UserError(f"{text}: settings can be neither added nor removed, only set")
    if composed.resume is None:
        command = shlex.join(["python", "-m", kind.module, *words])
        asked = _Asked(composed, {group: choices[group] for group in kind.groups}, command)
    else:
        asked = _interrupted(kind, Path(composed.resume), composed, words)
    experiment = kind.build(asked.composed)
    sources = _sources(experiment)
    for name, source in asked.sources.items():
        if source != sources[name]:
            raise UserError(
                f"the run was begun with {name}={source}, but here it is {sources[name]}; "
                f"resume it with the data it was begun with, or on its board"
            )
    kind.announce(experiment, asked.choices, asked.command, console)
    if asked.folder is not None:
        again = (
            "; measurements under load are repeated" if experiment.config.latency.is_live else ""
        )
        say(console, f"resuming {asked.folder.path}{again}")
    folder = asked.folder or _new_folder(asked, experiment, sources)
    repeated = words_to_repeat(_values(asked.composed), asked.choices)
    again = shlex.join([f"resume={folder.path}", *repeated])
    begun = Begun(
        kind.module, experiment, asked.choices, folder, console, asked.command, again, began_s
    )
    return Run(begun, kind.strategy(begun), on_trials)


def _sources(experiment: Experiment) -> dict[str, str]:
    problem = experiment.problem
    return {
        "space": problem.space.name,
        "accuracy": problem.accuracy.source,
        "latency": problem.oracle.source,
        "device": problem.oracle.device,
        "data": experiment.digest,
    }


def _new_folder(asked: _Asked, experiment: Experiment, sources: Mapping[str, str]) -> RunFolder:
    """A new folder with the settings, after what the run was begun with."""
    problem, config = experiment.problem, experiment.config
    folder = new_run_folder(
        Path(config.out),
        asked.choices.get("reward"),
        _subject(experiment),
        experiment.limits_ms,
        problem.limits,
    )
    values = {**_values(asked.composed), **experiment.derived_settings}
    choices = dict(asked.choices)
    if config.latency.is_live and choices["latency"] == _AUTO:  # a board was measured unasked
        choices["latency"] = _PROBE
        structured = OmegaConf.structured(config.latency)
        values["latency"] = OmegaConf.to_container(structured, enum_to_str=True)
    stored = {"command": asked.command, "choices": choices, "sources": dict(sources)}
    write_whole(folder.config, OmegaConf.to_yaml({**stored, "values": values}))
    return folder


def _subject(experiment: Experiment) -> str:
    """Name of the data that networks are trained on; without any, that of the device."""
    name = Path((experiment.data or "").partition("?")[0]).stem
    return name.rpartition(":")[2] or experiment.problem.oracle.device


def _values(composed: DictConfig) -> dict[str, Any]:
    values: Any = OmegaConf.to_container(composed, resolve=True, enum_to_str=True)
    return dict(values)


def _interrupted(
    kind: RunKind[Any], path: Path, repeated: DictConfig, words: Sequence[str]
) -> _Asked:
    """What the folder of a run holds, after the command line repeated what starts programs."""
    folder = interrupted_run_folder(path)
    stored = load_settings(folder.config)
    if not all(isinstance(stored.get(name), dict) for name in ("choices", "sources", "values")):
        raise UserError(f"{folder.config} holds no settings of a run")
    stored = kind.current(path, stored)
    choices = stored_choices(folder.config, stored, kind.groups)
    waits = waiting(words, choices["latency"])
    others = [text for text in words if not text.startswith("resume=") and text not in waits]
    require_repeated(folder.config, stored["values"], choices, repeated, others)
    try:
        sources = {name: str(stored["sources"][name]) for name in _SOURCES}
        composed = hydra.compose(kind.file, [f"{group}={name}" for group, name in choices.items()])
        composed.merge_with(stored["values"])
        for name in (text.partition("=")[0] for text in waits if "." in text):
            OmegaConf.update(composed, name, OmegaConf.select(repeated, name))
        return _Asked(composed, choices, str(stored["command"]), folder, sources)
    except (HydraException, OmegaConfBaseException, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{folder.config} does not fit this version: {error}") from error
