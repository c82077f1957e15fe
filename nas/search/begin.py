"""How a run begins: from settings in a folder of its own, or from the folder of an interrupted run."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

import hydra
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from rich.console import Console

from edgenas_core.command.console import say
from edgenas_core.files.atomic_file import write_whole
from edgenas_core.files.safe_yaml import load_settings
from edgenas_core.types.errors import UserError
from nas.accuracy.base import HasWeights
from nas.config.build import NAMES, Experiment, build
from nas.config.stored import require_repeated, stored_choices, waiting, words_to_repeat
from nas.report.run_folder import RunFolder, interrupted_run_folder, new_run_folder
from nas.runs.run import OnTrials, Run, nothing
from nas.runs.strategy import Begun, Strategy
from nas.search.announcement import announce
from nas.search.by_controller import ByController

_SOURCES = ("space", "accuracy", "latency", "device", "data")
"""Sources, device and digest of own images that a resumed run must share with its first part."""


_AUTO, _PROBE = "auto", "probe"
"""Names of latency sources: that of a search that names none, and that of a live board."""

_BY_CONTROLLER = ("reward", "controller")
"""Groups that searches on own images do without."""


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
    composed: DictConfig,
    choices: Mapping[str, str],
    words: Sequence[str],
    console: Console,
    on_trials: OnTrials = nothing,
    *,
    began_s: float | None = None,
) -> Run:
    """The run that the settings ask for, announced and with its folder; `complete` searches.

    Args:
      composed: the settings.
      choices: chosen name of each group.
      words: the settings that differ from the defaults, as on the command line.
      console: prints sources, progress and result.
      on_trials: called with each batch of finished trials.
      began_s: when the time of the search began, on the monotonic clock; None: now.

    Raises:
      UserError: if a setting cannot work, a source cannot answer, or a file is corrupt.
      OSError: if a folder cannot be written.
    """
    began_s = time.monotonic() if began_s is None else began_s
    for text in words:
        if text.startswith(("+", "~")) and not text.startswith("+experiment="):
            raise UserError(f"{text}: settings can be neither added nor removed, only set")
        is_own = composed.data is not None or composed.learner is not None
        if is_own and text.startswith(_BY_CONTROLLER):
            raise UserError(f"{text}: own images are searched without it; leave it out")
    if composed.resume is None:
        command = shlex.join(["python", "-m", "nas.search", *words])
        asked = _Asked(composed, {group: choices[group] for group in NAMES}, command)
    else:
        asked = _interrupted(Path(composed.resume), composed, words)
    experiment = build(asked.composed)
    sources = _sources(experiment)
    for name, source in asked.sources.items():
        if source != sources[name]:
            raise UserError(
                f"the run was begun with {name}={source}, but here it is {sources[name]}; "
                f"resume it with the data it was begun with, or on its board"
            )
    announce(experiment, asked.choices, console, by_default=" space=" not in asked.command)
    if asked.folder is not None:
        again = "; disturbed times are taken again" if experiment.config.latency.is_live else ""
        say(console, f"resuming {asked.folder.path}{again}")
    folder = asked.folder or _new_folder(asked, experiment, sources)
    repeated = words_to_repeat(_values(asked.composed), asked.choices)
    again = shlex.join([f"resume={folder.path}", *repeated])
    begun = Begun(experiment, asked.choices, folder, console, asked.command, again, began_s)
    return Run(begun, _strategy(begun), on_trials)


def _strategy(begun: Begun) -> Strategy:
    if begun.experiment.images is None:
        return ByController(begun)
    # searches on tables do not import torch
    from nas.fit.own_images import FineTuningConfig, InheritedConfig  # noqa: PLC0415 - as said
    from nas.fit.run.fine_tuned import FineTuned  # noqa: PLC0415 - as said
    from nas.fit.run.inherited import Inherited  # noqa: PLC0415 - as said
    from nas.fit.run.staged import Staged  # noqa: PLC0415 - as said
    from nas.fit.run.staged_search import StagedSearch  # noqa: PLC0415 - as said

    kinds: dict[type, type[StagedSearch]] = {
        FineTuningConfig: FineTuned,
        InheritedConfig: Inherited,
    }
    return kinds.get(type(begun.experiment.config.accuracy), Staged)(begun)


def _sources(experiment: Experiment) -> dict[str, str]:
    problem, images = experiment.problem, experiment.images
    return {
        "space": problem.space.name,
        "accuracy": problem.accuracy.source,
        "latency": problem.oracle.source,
        "device": problem.oracle.device,
        "data": "none" if images is None else images.digest,
    }


def _new_folder(asked: _Asked, experiment: Experiment, sources: Mapping[str, str]) -> RunFolder:
    """A new folder with the settings, after what the run was begun with."""
    problem = experiment.problem
    folder = new_run_folder(
        Path(asked.composed.runs),
        asked.choices["reward"] if experiment.images is None else None,
        problem.oracle.device,
        problem.limit_ms,
        problem.limits,
    )
    values = _values(asked.composed)
    knows_side = experiment.config.network is not None or isinstance(problem.space, HasWeights)
    if experiment.images is not None and not knows_side:
        values["side"] = experiment.images.side  # the space's default, for commands that read it
    choices, latency = dict(asked.choices), experiment.config.latency
    if experiment.images is not None:
        for group in _BY_CONTROLLER:
            del choices[group], values[group]
    if (
        latency.is_live and choices["latency"] == _AUTO
    ):  # a board was measured without being asked to
        choices["latency"] = _PROBE
        structured = OmegaConf.structured(latency)
        values["latency"] = OmegaConf.to_container(structured, enum_to_str=True)
    stored = {"command": asked.command, "choices": choices, "sources": dict(sources)}
    write_whole(folder.config, OmegaConf.to_yaml({**stored, "values": values}))
    return folder


def _values(composed: DictConfig) -> dict[str, Any]:
    values: Any = OmegaConf.to_container(composed, resolve=True, enum_to_str=True)
    return dict(values)


def _interrupted(path: Path, repeated: DictConfig, words: Sequence[str]) -> _Asked:
    """What the folder of a run holds, after the command line repeated what starts programs."""
    folder = interrupted_run_folder(path)
    stored = load_settings(folder.config)
    if not all(isinstance(stored.get(name), dict) for name in ("sources", "values")):
        raise UserError(f"{folder.config} holds no settings of a search")
    is_own = any(stored["values"].get(name) is not None for name in ("data", "task", "learner"))
    groups = [group for group in NAMES if not (is_own and group in _BY_CONTROLLER)]
    choices = stored_choices(folder.config, stored, groups)
    waits = waiting(words, choices["latency"])
    others = [text for text in words if not text.startswith("resume=") and text not in waits]
    require_repeated(folder.config, stored["values"], choices, repeated, others)
    try:
        sources = {name: str(stored["sources"][name]) for name in _SOURCES}
        composed = hydra.compose("search", [f"{group}={name}" for group, name in choices.items()])
        composed.merge_with(stored["values"])
        for name in (text.partition("=")[0] for text in waits if "." in text):
            OmegaConf.update(composed, name, OmegaConf.select(repeated, name))
        return _Asked(composed, choices, str(stored["command"]), folder, sources)
    except (HydraException, OmegaConfBaseException, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{folder.config} does not fit this version: {error}") from error
