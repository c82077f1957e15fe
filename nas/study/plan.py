"""Plan of a study: the product of its axes as settings, each with the objects that search it.

A setting is one reward, controller, device, limit and choice of grid values; its seeds are replicas
of one vectorised search.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from itertools import product
from typing import Any, final

from hydra import compose
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from controller.base import ControllerConfig
from edgenas_core.command.bounds import require_in_bounds
from edgenas_core.command.hydra_command import composing
from edgenas_core.types.architectures import Enumerable
from edgenas_core.types.errors import UserError, not_one_of
from edgenas_core.types.task import Task
from latency.base import LatencyOracle
from nas.accuracy.base import Accuracy
from nas.spaces.base import SearchSpace, searched_part, task_named
from nas.spaces.registry import space_named
from nas.study.answers import Answers, answers_about_all
from nas.study.config import StudyConfig
from nas.study.problems import Problems
from nas.trials.problem import RewardedProblem
from nas.trials.survey import Survey
from rewards.base import Reward

_MOST_SAMPLES = 10**9


@final
@dataclass(frozen=True)
class Setting:
    """One search of the study, whatever the seed."""

    reward: str
    controller: str
    device: str
    limit_ms: float
    overrides: tuple[str, ...] = ()  # values of the grid; empty for the defaults

    @property
    def key(self) -> str:
        """The setting in one line; its name in the ledger."""
        words = [f"reward={self.reward}", f"controller={self.controller}", f"device={self.device}"]
        return " ".join([*words, f"T={_exact(self.limit_ms)}ms", *self.overrides])

    @property
    def stem(self) -> str:
        """Name of its files: readable, and different for every setting."""
        words = (self.reward, self.controller, self.device, f"{_exact(self.limit_ms)}ms")
        slug = re.sub(r"[^A-Za-z0-9.]+", "-", "-".join(words)).strip("-")
        return f"{slug[:80]}-{sha256(self.key.encode()).hexdigest()[:10]}"


@final
@dataclass(frozen=True)
class StudyJob:
    """A setting and the objects that search it."""

    setting: Setting
    problem: RewardedProblem
    controller: ControllerConfig
    exact: bool  # the study has answers about the whole space


@final
@dataclass(frozen=True)
class Plan:
    """A study before its first sample."""

    config: StudyConfig
    space: SearchSpace
    task: Task
    accuracy: Accuracy
    oracles: Mapping[str, LatencyOracle]  # by device
    surveys: Mapping[tuple[str, float], Survey]  # by device and limit in ms; empty if not exact
    answers: Mapping[str, Answers]  # about the whole space, by device; empty if not exact
    why_not_exact: str  # why the optimum of the space is not known; empty if it is
    jobs: tuple[StudyJob, ...]

    @property
    def seeds(self) -> range:
        """Seeds of every setting."""
        return range(self.config.seeds)


def make_plan(composed: DictConfig) -> Plan:
    """The plan of a composed configuration.

    Raises:
      UserError: if a value is out of its range, a name unknown, a table incomplete, or a limit
        cannot be met.
    """
    config = _check(composed)
    space = space_named(config.space)
    task = task_named(space, config.dataset)
    accuracy = config.accuracy.build(space, task, config.split, config.epochs)
    problems = Problems(config, space, task, accuracy)
    exact = not problems.why_not_exact
    maker = _Maker(space, config.budget)
    jobs: dict[Setting, StudyJob] = {}
    for name, overrides in _parts(config, list(problems.named)):
        for (device, limit_ms), reward, controller in product(
            problems.named[name], config.rewards, config.controllers
        ):
            setting = Setting(reward, controller, device, limit_ms, overrides)
            scored = maker.reward(reward, limit_ms, overrides)
            searcher = maker.controller(controller, overrides)
            same = jobs.get(replace(setting, overrides=()))
            if overrides and same and (scored, searcher) == (same.problem.reward, same.controller):
                continue  # a point of the grid that equals the defaults
            oracle = problems.oracles[device]
            part = searched_part(space, oracle)
            problem = RewardedProblem(
                part, task, accuracy, oracle, limit_ms, confidence=0.0, reward=scored
            )  # searchers are compared on the numbers as they are
            jobs[setting] = StudyJob(setting, problem, searcher, exact)
    if len({setting.key for setting in jobs}) < len(jobs):
        raise AssertionError("two settings have one key, and would have one file")
    answers = {}
    if exact and isinstance(space, Enumerable):
        answers = answers_about_all(space, task, config.epochs, accuracy, problems.oracles)
    return Plan(
        config=config,
        space=space,
        task=task,
        accuracy=accuracy,
        oracles=problems.oracles,
        surveys=problems.surveys if exact else {},
        answers=answers,
        why_not_exact=problems.why_not_exact,
        jobs=tuple(jobs.values()),
    )


def _check(composed: DictConfig) -> StudyConfig:
    if "limit" in composed.latency:
        raise UserError("latency=mapped has one T; a study has several limits, take latency=auto")
    for name in sorted(OmegaConf.missing_keys(composed)):
        raise UserError(f"{name} is not set; write {name}=<value>")
    try:
        config = OmegaConf.to_object(composed)
    except OmegaConfBaseException as error:
        raise UserError(str(error).splitlines()[0]) from error
    if not isinstance(config, StudyConfig):
        raise TypeError(f"composed a {type(config).__name__}, not a StudyConfig")
    _require_counts(config)
    for name in ("rewards", "controllers", "devices", "limits"):
        values = getattr(config, name)
        if not values or len(set(values)) < len(values):
            raise UserError(f"{name}={_list(values)} must name at least one, and none twice")
    if config.tested_against and config.tested_against not in config.compared:
        raise not_one_of("reference", config.tested_against, config.compared)
    return config


def _require_counts(config: StudyConfig) -> None:
    for name, value, least in (
        ("budget", config.budget, 1),
        ("seeds", config.seeds, 1),
        ("workers", config.workers, 1),
    ):
        if value is not None and value < least:
            raise UserError(f"{name}={value} must be at least {least}")
    if config.seeds * config.budget > _MOST_SAMPLES:
        raise UserError(
            f"seeds={config.seeds} x budget={config.budget} are more than {_MOST_SAMPLES:,} samples of a "
            f"setting, which are held in memory"
        )


def _parts(config: StudyConfig, devices: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """(device, overrides): the defaults of all devices, then their points of the grid."""
    axes = [_axis(text) for text in config.grid]
    for device in devices:
        yield device, ()
    for device, point in product(devices, product(*axes) if axes else ()):
        yield device, point


def _axis(text: str) -> list[str]:
    """The overrides of one line of the grid, such as controller.lr=0.001,0.01."""
    name, equals, values = text.partition("=")
    if not equals or not all(values.split(",")):
        raise UserError(f"grid={text} is not of the form controller.lr=0.001,0.01")
    if name.partition(".")[0] not in {"reward", "controller"}:
        raise UserError(f"grid={text} must begin with reward. or controller.")
    return [f"{name}={value}" for value in values.split(",")]


@cache
def _compose(*overrides: str) -> DictConfig:
    """The configuration of a search; composing takes 0.2 s, and only T is changed in it."""
    return compose("search", [*overrides])


@final
class _Maker:
    """Rewards and controllers by name."""

    def __init__(self, space: SearchSpace, budget: int) -> None:
        self._space = space
        self._budget = budget

    def reward(self, text: str, limit_ms: float, overrides: Sequence[str]) -> Reward:
        group_overrides = [word for word in overrides if word.startswith("reward.")]
        made: Reward = self._make("reward", text, f"{limit_ms!r}ms", group_overrides)
        return made

    def controller(self, text: str, overrides: Sequence[str]) -> ControllerConfig:
        group_overrides = [word for word in overrides if word.startswith("controller.")]
        # any limit that every reward takes
        made: ControllerConfig = self._make("controller", text, "17ms", group_overrides)
        if made.batch_size < 1:
            raise UserError(f"controller.batch_size={made.batch_size} must be at least 1")
        try:
            made.build(self._space, [0])
        except ValueError as error:
            raise UserError(f"{text}: {error}") from error
        return made

    def _make(self, group: str, text: str, limit: str, group_overrides: Sequence[str]) -> Any:
        name, *words = text.split() or [""]
        key = (f"{group}={name}", *(f"{group}.{word}" for word in words), *group_overrides)
        try:
            with composing("nas.study", key):
                composed = _compose(f"budget={self._budget}", *key)
        except HydraException as error:
            if not group_overrides:
                raise
            raise UserError(
                f"grid: {' '.join(group_overrides)} does not fit {group}={name}; vary it in a study "
                f"without {name}"
            ) from error
        require_in_bounds(OmegaConf.to_container(composed[group]), group)
        composed.T = limit
        try:
            return OmegaConf.to_object(composed[group])
        except (OmegaConfBaseException, ValueError) as error:
            raise UserError(f"{text}: {str(error).splitlines()[0]}") from error


def _exact(value: float) -> str:
    """A number with all its digits: 11 and not 11.0, but 11.00001."""
    return repr(value).removesuffix(".0")


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) or "(none)"
