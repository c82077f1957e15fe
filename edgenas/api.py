"""The commands as functions.

An argument that is left out has the default of `conf/<command>.yaml`, which `--help` of the command
explains. `settings` are all others by their names: `{"controller.batch_size": 10}`. A value out of its
range, a source that cannot answer, a file that cannot be read or written raise `UserError`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy import ndarray

from edgenas.arguments import takes_settings
from edgenas.found import Found, Study
from edgenas.networks import Settings, chosen_settings, learner_name, space_name
from edgenas.suggestions import Suggestions
from edgenas_core.command.console import PlainConsole, quietly, say
from edgenas_core.command.hydra_command import called, chosen_names, typed_call, word
from edgenas_core.types.errors import UserError
from latency.measuring.settings import MeasureConfig
from nas import transfer as transfer_command
from nas.config.build import NAMES, SearchConfig, add_part, build, default_searcher, register
from nas.config.moved_settings import as_fit, is_fit, require_fit_settings, require_search_settings
from nas.config.run_config import live_settings
from nas.fit import command as fit_command
from nas.fit.build import live_settings_of_fit, register_fit, space_of_network
from nas.fit.config import FitConfig
from nas.measure import command as measure_command
from nas.runs.begin import RunKind
from nas.runs.command import USER_ERRORS, complete_run
from nas.runs.run import OnTrials
from nas.search import command as search_command
from nas.study import command as study_command
from nas.study.config import StudyConfig

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from edgenas.keywords import (
        FitKeywords,
        MeasureKeywords,
        SearchKeywords,
        StudyKeywords,
        TransferKeywords,
    )


@takes_settings(SearchConfig)
def search(
    *,
    settings: Settings | None = None,
    progress: OnTrials | None = None,
    quiet: bool = False,
    **keywords: Unpack[SearchKeywords],
) -> Found:
    """Find the most accurate architecture that meets a time limit on a device: `python -m nas.search`.

    A space, a source of latencies or accuracies, a reward and a controller may be an object of yours, or a
    function: reward(accuracy, latency_ms), of arrays; controller(space, seeds), which returns a `Controller`;
    latency(rows) and accuracy(rows), from rows of choice indices (n, D) to n milliseconds or fractions. A
    latency of your own needs no device. Until 1.0, data= and other settings of a fit start `fit`.

    Args:
      settings: further settings by their full names: {"controller.batch_size": 10}.
      progress: called with each batch of finished trials; what it raises stops the search, which
        `resume` continues.
      quiet: print nothing.
      keywords: settings. With resume=, give own parts again, and nothing else.

    Raises:
      UserError: if a setting cannot work, a source cannot answer, or a file cannot be written.
    """
    arguments: Settings = {**keywords, "settings": settings}
    further = settings if isinstance(settings, Mapping) else {}
    named = {name: value for name, value in further.items() if isinstance(name, str)}
    if is_fit({**named, **keywords}):
        say(PlainConsole(quiet=quiet), search_command.HANDED_OVER)
        return _fit_of_search({**arguments, "progress": progress, "quiet": quiet})
    _require_progress(progress)
    register()
    chosen = chosen_settings(_with_own_parts(arguments))
    require_search_settings(chosen)
    chosen = {**live_settings(chosen), **chosen}
    chosen = {**default_searcher(chosen), **chosen}
    return _run("nas.search", "search", search_command.search_kind(), chosen, progress, quiet=quiet)


@takes_settings(FitConfig)
def fit(
    *,
    settings: Settings | None = None,
    progress: OnTrials | None = None,
    quiet: bool = False,
    **keywords: Unpack[FitKeywords],
) -> Found:
    """Train the most accurate network within a time limit on your own data: `python -m nas.fit`.

    The network may be a trained `torch.nn.Module`, the learner a `Learner`, such as
    `edgenas.learner(loss, metric, train, valid)`.

    Args:
      settings: further settings by their full names.
      progress: as in `search`, for each training.
      quiet: print nothing.
      keywords: settings. With resume=, give own parts again, and nothing else.

    Raises:
      UserError: if a setting cannot work, the data cannot be read, or a file cannot be written.
    """
    arguments: dict[str, Any] = {**keywords, "settings": settings}
    _require_progress(progress)
    register_fit()
    network = arguments.get("network")
    if network is not None and not isinstance(network, str):
        named = {**arguments, **(settings or {})}
        arguments |= {"space": space_of_network(network, named), "network": None}
    chosen = chosen_settings(_with_own_parts(arguments))
    require_fit_settings(chosen)
    chosen = {**live_settings_of_fit(chosen), **chosen}
    return _run("nas.fit", "fit", fit_command.fit_kind(), chosen, progress, quiet=quiet)


def _fit_of_search(arguments: Settings) -> Found:
    """Fit as a search on own images of an earlier version did."""
    settings = dict(arguments["settings"] or {})
    given = {name: value for name, value in arguments.items() if value is not None}
    named = dict(filter(None, (as_fit(*each) for each in given.items() if each[0] != "settings")))
    further = dict(filter(None, (as_fit(*each) for each in settings.items())))
    parameters = signature(fit).parameters
    further |= {name: value for name, value in named.items() if name not in parameters}
    named = {name: value for name, value in named.items() if name in parameters}
    return fit(**named, settings=further)


def _run(
    module: str,
    file: str,
    kind: RunKind[Any],
    chosen: Settings,
    progress: OnTrials | None,
    *,
    quiet: bool,
) -> Found:
    """Run to the end with the chosen settings."""
    with quietly(quiet=quiet), called(module, file, chosen, *USER_ERRORS) as composed:
        console = PlainConsole(quiet=quiet)
        folder = complete_run(
            kind, composed, chosen_names(), _words(chosen), console, on_trials=progress
        )
    return Found(folder.path)


def _require_progress(progress: object) -> None:
    if progress is not None and not callable(progress):
        raise UserError(f"progress={progress!r:.200} is no function of finished trials")


@takes_settings(SearchConfig)
def suggest(*, settings: Settings | None = None, **keywords: Unpack[SearchKeywords]) -> Suggestions:
    """Suggest architectures to a loop of your own, which evaluates them: `ask` and `tell`.

    No files are written; the settings are those of `search`, but accuracies come from `tell`.

    Args:
      settings: further settings by their full names.
      keywords: settings.

    Raises:
      UserError: if a setting cannot work, or a source cannot answer.
    """
    arguments = {**keywords, "settings": settings, "accuracy": _no_accuracy}
    register()
    chosen = chosen_settings(_with_own_parts(arguments))
    require_search_settings(chosen)
    chosen = {**live_settings(chosen), **chosen}
    chosen = {**default_searcher(chosen), **chosen}
    with called("nas.search", "search", chosen, *USER_ERRORS) as composed:
        experiment = build(composed)
    return Suggestions(experiment.problem, experiment.controller)


def _no_accuracy(_architectures: ndarray) -> ndarray:
    """The accuracy source of `suggest`, which is never called: `tell` has the accuracies."""
    raise AssertionError


@takes_settings(StudyConfig)
def study(
    *,
    experiment: str | None = None,
    settings: Settings | None = None,
    quiet: bool = False,
    **keywords: Unpack[StudyKeywords],
) -> Study:
    """Compare rewards or searchers over devices, limits and seeds: `python -m nas.study`.

    Args:
      experiment: a preset, such as "smoke".
      settings: further settings by their full names.
      quiet: print nothing.
      keywords: settings; rewards, controllers and sources may be objects or functions, as in `search`.

    Raises:
      UserError: if the study cannot be planned, or a setting failed.
    """
    study_command.register_study()
    arguments = {
        **keywords,
        "rewards": _listed("reward", keywords.get("rewards")),
        "controllers": _listed("controller", keywords.get("controllers")),
        "+experiment": experiment,
        "settings": settings,
    }
    chosen = chosen_settings(_with_own_parts(arguments))
    with quietly(quiet=quiet), called("nas.study", "study", chosen) as composed:
        console = PlainConsole(quiet=quiet)
        written = study_command.run_study(composed, chosen_names(), _words(chosen), console)
    return Study(written.path)


@takes_settings(MeasureConfig)
def measure(
    *, settings: Settings | None = None, quiet: bool = False, **keywords: Unpack[MeasureKeywords]
) -> Path:
    """Time networks on this machine or a board into a latency table: `python -m nas.measure`.

    Args:
      settings: further settings by their full names.
      quiet: print nothing.
      keywords: settings.

    Returns the path of the table.

    Raises:
      UserError: if the machine or board cannot be measured, or is not quiet.
    """
    chosen = chosen_settings({**keywords, "settings": settings})
    with (
        _process_as_before(),
        typed_call("nas.measure", "measure", MeasureConfig, chosen) as config,
    ):
        return measure_command.measure(config, _words(chosen), PlainConsole(quiet=quiet))


@takes_settings(transfer_command.TransferConfig)
def transfer(
    *, settings: Settings | None = None, quiet: bool = False, **keywords: Unpack[TransferKeywords]
) -> Path:
    """Predict a new device from a few networks that were timed on it: `python -m nas.transfer`.

    Args:
      settings: further settings by their full names.
      quiet: print nothing.
      keywords: settings.

    Returns the path that was written.

    Raises:
      UserError: if a setting cannot work, or a file is corrupt.
    """
    chosen = chosen_settings({**keywords, "settings": settings})
    with typed_call("nas.transfer", "transfer", transfer_command.TransferConfig, chosen) as config:
        return transfer_command.transfer(config, PlainConsole(quiet=quiet))


@contextmanager
def _process_as_before() -> Iterator[None]:
    """Give the process its processors, and torch its threads, back after a measurement."""
    if not hasattr(os, "sched_getaffinity"):  # only boards can be measured
        yield
        return
    cores, torch = os.sched_getaffinity(0), sys.modules.get("torch")
    threads = len(cores) if torch is None else torch.get_num_threads()
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)
        if "torch" in sys.modules:
            sys.modules["torch"].set_num_threads(threads)


def _with_own_parts(arguments: Settings) -> Settings:
    """Arguments with the names of the user's own parts; a resumed folder has their settings."""
    values, is_new = dict(arguments), arguments.get("resume") is None
    for group in NAMES:
        part = values.get(group)
        if part is not None and not isinstance(part, str):
            settings = add_part(group, part)
            values |= settings if is_new else {group: None}
    if not isinstance(values.get("space"), str):
        name = space_name(values.get("space"))
        values["space"] = name if is_new else None
    if not isinstance(values.get("learner"), str | None):
        name = learner_name(values["learner"])
        values["learner"] = name if is_new else None
    return values


def _listed(group: str, parts: Sequence[Any] | None) -> list[str] | None:
    """Rewards or controllers as a study names them, with the settings of objects."""
    if parts is None:
        return None
    if isinstance(parts, str) or not isinstance(parts, Sequence):
        raise UserError(f"{group}s={parts!r:.200} is no list of names or objects")
    texts = []
    for part in parts:
        values = {group: part} if isinstance(part, str) else add_part(group, part)
        name = values.pop(group)
        words = (word(key.removeprefix(f"{group}."), value) for key, value in values.items())
        texts.append(" ".join([name, *words]))
    return texts


def _words(values: Settings) -> list[str]:
    return [word(name, value) for name, value in values.items()]
