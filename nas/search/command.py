"""`python -m nas.search`: Hydra composes, one run follows; every error is one line."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from rich.console import Console

from common.command.console import PlainConsole
from common.command.exit_status import USER_ERROR, one_line_errors, plain_interrupts, reason
from common.command.hydra_command import chosen_names, hydra_command, user_errors
from common.files.atomic_file import remove_unfinished, replacing
from common.files.file_lock import held
from common.files.safe_yaml import load_settings
from common.types.errors import UserError
from controller.base import DivergedError
from latency.base import UnmeasuredError
from nas.config.build import NAMES, Experiment, build, register
from nas.config.stored import require_repeated, stored_choices, words_to_repeat
from nas.search.announcement import announce
from nas.search.folder import RunFolder, interrupted_run_folder, new_run_folder
from nas.search.run import OnTrials, Run, nothing
from nas.search.sweep import compare_runs, run_job


def main() -> None:
    """Run the command line's search, or its sweep; 2 if a run of a sweep could not be made."""
    hydra_command("nas.search", "search", _run, removed=register())
    with one_line_errors():
        if not compare_runs(PlainConsole()):
            sys.exit(USER_ERROR)


_SOURCES = ("space", "accuracy", "latency", "device", "data")
"""Sources, device and digest of own images that a resumed run must share with its first part."""

USER_ERRORS = (DivergedError, UnmeasuredError)
"""Errors of the user, besides `UserError` and `OSError`."""


def _run(composed: DictConfig) -> None:
    asked = HydraConfig.get()

    def run(console: Console) -> RunFolder:
        with user_errors("nas.search", *USER_ERRORS):
            return search(composed, chosen_names(), list(asked.overrides.task), console)

    if asked.mode is RunMode.MULTIRUN:
        run_job(run)
    else:
        run(PlainConsole())


def search(
    composed: DictConfig,
    choices: Mapping[str, str],
    words: Sequence[str],
    console: Console,
    on_trials: OnTrials = nothing,
) -> RunFolder:
    """Search to the end, in a folder of its own or in the one to resume; returns the folder.

    Args:
      composed: the settings.
      choices: chosen name of each group.
      words: the settings that differ from the defaults, as on the command line.
      console: prints sources, progress and result.
      on_trials: called with each batch of finished trials.

    Raises:
      UserError: if a setting cannot work, a source cannot answer, or a file is corrupt.
      OSError: if a folder cannot be written.
    """
    for text in words:
        if text.startswith(("+", "~")) and not text.startswith("+experiment="):
            raise UserError(f"{text}: settings can be neither added nor removed, only set")
    if composed.resume is None:
        choices = {group: choices[group] for group in NAMES}
        command = shlex.join(["python", "-m", "nas.search", *words])
        interrupted = None
        begun_with: dict[str, str] = {}
    else:
        interrupted = interrupted_run_folder(Path(composed.resume))
        composed, choices, begun_with, command = _load(interrupted, composed, words)
    experiment = build(composed)
    problem = experiment.problem
    sources = {
        "space": problem.space.name,
        "accuracy": problem.accuracy.source,
        "latency": problem.oracle.source,
        "device": problem.oracle.device,
        "data": "none" if experiment.images is None else experiment.images.digest,
    }
    for name, source in begun_with.items():
        if source != sources[name]:
            raise UserError(
                f"the run was begun with {name}={source}, but here it is {sources[name]}; "
                f"resume it with the data it was begun with, or on its board"
            )
    announce(experiment, choices, console)
    if interrupted is None:
        folder = new_run_folder(
            Path(composed.runs),
            choices["reward"],
            problem.oracle.device,
            problem.limit_ms,
            problem.limits,
        )
        begun = {"command": command, "choices": choices, "sources": sources}
        _save(composed, experiment, folder, begun)
    else:
        folder = interrupted
    again = shlex.join([f"resume={folder.path}", *words_to_repeat(_values(composed), choices)])
    try:
        with plain_interrupts(), held(folder.config):
            folder.require_unfinished()
            remove_unfinished(folder.path)
            _complete(experiment, choices, folder, console, command, on_trials)
    except KeyboardInterrupt:
        console.print(f"go on with: python -m nas.search {again}", soft_wrap=True, markup=False)
        raise
    except OSError as error:
        raise UserError(
            f"{reason(error)}; finished samples are saved, go on with {again}"
        ) from error
    return folder


def _complete(  # noqa: PLR0917 - called in one place
    experiment: Experiment,
    choices: Mapping[str, str],
    folder: RunFolder,
    console: Console,
    command: str,
    on_trials: OnTrials,
) -> None:
    if experiment.images is None:
        Run(experiment, choices, folder, console, command, on_trials).complete()
        return
    # searches on tables do not import torch
    from nas.search.own_images.run import OwnImagesRun  # noqa: PLC0415

    OwnImagesRun.of(experiment, choices, folder, console, command, on_trials).complete()


def _save(
    composed: DictConfig,
    experiment: Experiment,
    folder: RunFolder,
    begun: dict[str, Any],
) -> None:
    """Write the settings after what the run was begun with: command, choices, sources."""
    values = _values(composed)
    if experiment.images is not None:
        values["side"] = experiment.images.side  # the space's default, for commands that read it
    text = OmegaConf.to_yaml({**begun, "values": values})
    with replacing(folder.config) as file:
        file.write(text.encode())


def _values(composed: DictConfig) -> dict[str, Any]:
    values: Any = OmegaConf.to_container(composed, resolve=True, enum_to_str=True)
    return dict(values)


def _load(
    folder: RunFolder, given: DictConfig, words: Sequence[str]
) -> tuple[DictConfig, dict[str, str], dict[str, str], str]:
    """Stored settings, after the command line repeated what starts programs."""
    stored = load_settings(folder.config)
    if not all(isinstance(stored.get(name), dict) for name in ("sources", "values")):
        raise UserError(f"{folder.config} holds no settings of a search")
    if "space" not in stored["sources"]:
        raise UserError(
            f"resume={folder.path} was begun by a version that knew one search space; finish it "
            f"with that version, or begin it anew: {stored.get('command')}"
        )
    choices = stored_choices(folder.config, stored, list(NAMES))
    others = [text for text in words if not text.startswith("resume=")]
    require_repeated(folder.config, stored["values"], choices, given, others)
    try:
        sources = {name: str(stored["sources"][name]) for name in _SOURCES}
        composed = hydra.compose("search", [f"{group}={name}" for group, name in choices.items()])
        composed.merge_with(stored["values"])
        command = str(stored["command"])
    except (HydraException, OmegaConfBaseException, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{folder.config} does not fit this version: {error}") from error
    return composed, choices, sources, command
