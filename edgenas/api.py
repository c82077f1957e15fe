"""The commands as functions.

An argument that is left out has the default of `conf/<command>.yaml`, which `--help` of the command
explains. `settings` are all others by their names: `{"controller.batch_size": 10}`. A value out of its
range, a source that cannot answer, a file that cannot be read or written raise `UserError`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy import ndarray

from controller.base import ControllerConfig
from edgenas.arguments import takes_settings
from edgenas.found import Found, Study
from edgenas.networks import File, Settings, chosen_settings, learner_name, space_name
from edgenas.suggestions import Suggestions
from edgenas_core.command.console import PlainConsole, say
from edgenas_core.command.hydra_command import called, chosen_names, typed_call, word
from edgenas_core.types.errors import UserError
from latency.base import LatencyConfig, LatencyOracle
from latency.measuring.settings import MeasureConfig
from nas import transfer as transfer_command
from nas.accuracy.base import Accuracy, AccuracyConfig
from nas.config.build import NAMES, add_part, build, register
from nas.config.moved_settings import as_fit, is_fit, require_fit_settings, require_search_settings
from nas.config.run_config import live_settings
from nas.fit import command as fit_command
from nas.fit.build import live_settings_of_fit, register_fit, space_of_network
from nas.fit.learners.base import Learner
from nas.measure import command as measure_command
from nas.runs.begin import RunKind
from nas.runs.command import USER_ERRORS, complete_run
from nas.runs.run import OnTrials
from nas.search import command as search_command
from nas.spaces.base import SearchSpace
from nas.study import command as study_command
from nas.study.config import StudyConfig
from rewards.base import Reward

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from edgenas.keywords import MeasureKeywords, StudyKeywords, TransferKeywords


def search(
    *,
    T: str | None = None,  # noqa: N803 - the name of the limit
    device: str | Sequence[str] | None = None,
    space: str | SearchSpace | None = None,
    dataset: str | None = None,
    reward: str | Reward | Callable[..., Any] | None = None,
    controller: str | ControllerConfig | Callable[..., Any] | None = None,
    accuracy: str | AccuracyConfig | Accuracy | Callable[..., Any] | None = None,
    latency: str | LatencyConfig | LatencyOracle | Callable[..., Any] | None = None,
    E: str | None = None,  # noqa: N803 - as T
    P: str | None = None,  # noqa: N803 - as T
    RAM: str | None = None,  # noqa: N803 - as T
    flash: str | None = None,
    budget: int | None = None,
    seed: int | None = None,
    workers: int | None = None,
    runs: File | None = None,
    resume: File | None = None,
    settings: Settings | None = None,
    progress: OnTrials | None = None,
    quiet: bool = False,
    **of_fit: Any,
) -> Found:
    """Find the most accurate architecture that meets a time limit on a device: `python -m nas.search`.

    Args:
      T: time limit with its unit, "17ms".
      device: board/[runtime/]precision/batch, or with latency="probe" one address or several; not needed
        with a latency of your own.
      space: name of a search space, or a `SearchSpace`.
      dataset: a data set of the space.
      reward: name, a `Reward`, or a function (accuracy, latency_ms) -> reward, of arrays.
      controller: name, a `ControllerConfig`, or a function (space, seeds) -> `Controller`.
      accuracy: name, an `AccuracyConfig`, an `Accuracy`, or a function from rows of choice indices
        (n, D) to n fractions.
      latency: name, a `LatencyConfig`, a `LatencyOracle`, or a function from rows to n milliseconds.
      E: limit on the energy, "5mJ".
      P: limit on the parameters, "1M".
      RAM: limit on the memory of a microcontroller, "256kB".
      flash: limit on the size of the int8 .tflite file, "1MB".
      budget: number of architectures to sample.
      seed: same seed, same samples.
      workers: evaluations at once, of an asynchronous search.
      runs: folder of all runs.
      resume: folder of an interrupted run; give own parts again, and nothing else.
      settings: further settings by name.
      progress: called with each batch of finished trials; what it raises stops the search, which
        `resume` continues.
      quiet: print nothing.
      of_fit: until 1.0, arguments of `fit`, such as data=, which takes over.

    Raises:
      UserError: if a setting cannot work, a source cannot answer, or a file cannot be written.
    """
    arguments = {name: value for name, value in locals().items() if name != "of_fit"}
    if is_fit(of_fit):
        say(PlainConsole(quiet=quiet), search_command.HANDED_OVER)
        return _fit_of_search({**arguments, **of_fit})
    require_search_settings(of_fit)
    if of_fit:
        name = next(iter(of_fit))
        raise UserError(f"search has no argument {name}=; other settings are in settings=")
    _require_progress(progress)
    register()
    chosen = chosen_settings(_with_own_parts(arguments))
    require_search_settings(chosen)
    chosen = {**live_settings(chosen), **chosen}
    return _run("nas.search", "search", search_command.search_kind(), chosen, progress, quiet=quiet)


def fit(
    *,
    data: File | None = None,
    T: str | None = None,  # noqa: N803 - the name of the limit
    device: str | Sequence[str] | None = None,
    task: str | None = None,
    learner: str | Learner | None = None,
    network: object = None,
    space: str | SearchSpace | None = None,
    start: str | None = None,
    recipe: str | None = None,
    weights: File | None = None,
    latency: str | LatencyConfig | LatencyOracle | Callable[..., Any] | None = None,
    E: str | None = None,  # noqa: N803 - as T
    P: str | None = None,  # noqa: N803 - as T
    RAM: str | None = None,  # noqa: N803 - as T
    flash: str | None = None,
    hours: float | None = None,
    seed: int | None = None,
    workers: int | None = None,
    runs: File | None = None,
    resume: File | None = None,
    settings: Settings | None = None,
    progress: OnTrials | None = None,
    quiet: bool = False,
) -> Found:
    """Train the most accurate network within a time limit on your own data: `python -m nas.fit`.

    Args:
      data: a folder of images, a .parquet file, or "digits".
      T: time limit with its unit, "17ms".
      device: address of a board, "here", or a known device.
      task: what the data are for: "classification", "regression", "multilabel", "embedding",
        "segmentation", "detection".
      learner: instead of data, a `Learner`, `edgenas.learner(loss, metric, train, valid)`, or FILE.py:NAME.
      network: a trained `torch.nn.Module` to make smaller, or FILE.py:FUNCTION that builds it;
        `settings` have the side of its images, {"side": 96}.
      space: name of a search space, or a `SearchSpace`.
      start: what networks begin with: "pretrained", "scratch", or "network".
      recipe: of every training, such as "adamw".
      weights: folder of pretrained networks, or the file of `network`.
      latency: as in `search`.
      E: as in `search`.
      P: as in `search`.
      RAM: as in `search`.
      flash: as in `search`.
      hours: time of everything, the training of the winner included.
      seed: of the candidates and the trainings.
      workers: trainings at once.
      runs: folder of all runs.
      resume: folder of an interrupted fit; give own parts again, and nothing else.
      settings: further settings by name.
      progress: as in `search`, for each training.
      quiet: print nothing.

    Raises:
      UserError: if a setting cannot work, the data cannot be read, or a file cannot be written.
    """
    arguments = dict(locals())
    _require_progress(progress)
    register_fit()
    if network is not None and not isinstance(network, str):
        arguments |= {"space": space_of_network(network, settings or {}), "network": None}
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
    with called(module, file, chosen, *USER_ERRORS) as composed:
        console = PlainConsole(quiet=quiet)
        folder = complete_run(
            kind, composed, chosen_names(), _words(chosen), console, on_trials=progress
        )
    return Found(folder.path)


def _require_progress(progress: object) -> None:
    if progress is not None and not callable(progress):
        raise UserError(f"progress={progress!r:.200} is no function of finished trials")


def suggest(
    *,
    T: str | None = None,  # noqa: N803 - as in `search`
    device: str | Sequence[str] | None = None,
    space: str | SearchSpace | None = None,
    dataset: str | None = None,
    reward: str | Reward | Callable[..., Any] | None = None,
    controller: str | ControllerConfig | Callable[..., Any] | None = None,
    latency: str | LatencyConfig | LatencyOracle | Callable[..., Any] | None = None,
    E: str | None = None,  # noqa: N803 - as T
    P: str | None = None,  # noqa: N803 - as T
    RAM: str | None = None,  # noqa: N803 - as T
    flash: str | None = None,
    seed: int | None = None,
    settings: Settings | None = None,
) -> Suggestions:
    """Suggest architectures to a loop of your own, which evaluates them: `ask` and `tell`.

    No files are written; the arguments are those of `search`.

    Args:
      T: time limit with its unit, "17ms".
      device: as in `search`.
      space: as in `search`.
      dataset: as in `search`.
      reward: as in `search`.
      controller: as in `search`.
      latency: as in `search`.
      E: as in `search`.
      P: as in `search`.
      RAM: as in `search`.
      flash: as in `search`.
      seed: same seed, same suggestions after the same answers.
      settings: as in `search`.

    Raises:
      UserError: if a setting cannot work, or a source cannot answer.
    """
    arguments = {**locals(), "accuracy": _no_accuracy}
    register()
    chosen = chosen_settings(_with_own_parts(arguments))
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
    with called("nas.study", "study", chosen) as composed:
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
