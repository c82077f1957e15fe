"""The only place where names become classes and configs become objects."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from common.command.bounds import require_hours
from common.command.hydra_command import require_complete
from common.command.plug_ins import load
from common.types.errors import UserError
from common.types.task import Task
from common.types.units import milliseconds
from controller.base import Controller, ControllerConfig
from controller.evolution import EvolutionConfig
from controller.exhaustive import ExhaustiveConfig
from controller.libraries.settings import Nsga2Config, TpeConfig
from controller.local_search import LocalSearchConfig
from controller.model_based.guided import GuidedConfig
from controller.policy.reinforce import ReinforceConfig
from controller.policy.rnn import RnnConfig
from controller.uniform import UniformConfig
from latency.base import LatencyConfig, LatencyOracle
from latency.models.confidence import MOST_CONFIDENCE
from latency.probe.config import addresses
from latency.sources.blocks import BlocksLatencyConfig
from latency.sources.corun import CorunLatencyConfig
from latency.sources.mapped import MappedLatencyConfig
from latency.sources.probe import ProbeLatencyConfig
from latency.sources.table import (
    AutoLatencyConfig,
    RegressionLatencyConfig,
    TableLatencyConfig,
)
from latency.sources.transfer import TransferLatencyConfig
from nas.accuracy.base import Accuracy, AccuracyConfig, Split
from nas.accuracy.images.image_set import ImageSet
from nas.accuracy.own_images import (
    OwnImagesConfig,
    ProxyConfig,
    ShortConfig,
    StagedConfig,
    SupernetConfig,
)
from nas.accuracy.surrogate import SurrogateAccuracyConfig
from nas.accuracy.table import AutoAccuracyConfig, TableAccuracyConfig
from nas.config.limits import limits_of
from nas.config.own_parts import config_of, values_of
from nas.config.simulated import simulated
from nas.spaces.base import SearchSpace, task_named
from nas.spaces.registry import default_of, plug_ins_of, space_named
from nas.trials.executor import Simulated, Workers
from nas.trials.problem import SearchProblem
from rewards.absolute import AbsoluteReward
from rewards.base import Reward
from rewards.constrained import ConstrainedReward
from rewards.mnasnet import MnasReward
from rewards.proposed import ProposedReward

NAMES: dict[str, dict[str, type[Any]]] = {
    "reward": {
        "proposed": ProposedReward,
        "mnasnet": MnasReward,
        "absolute": AbsoluteReward,
        "constrained": ConstrainedReward,
    },
    "controller": {
        "reinforce_schema": ReinforceConfig,  # `_schema`: conf/controller/ holds the values
        "rnn_schema": RnnConfig,
        "guided_schema": GuidedConfig,
        "uniform_schema": UniformConfig,
        "evolution_schema": EvolutionConfig,
        "local_search_schema": LocalSearchConfig,
        "exhaustive_schema": ExhaustiveConfig,
        "nsga2_schema": Nsga2Config,
        "tpe_schema": TpeConfig,
    },
    "accuracy": {
        "auto": AutoAccuracyConfig,
        "table": TableAccuracyConfig,
        "surrogate": SurrogateAccuracyConfig,
        "staged": StagedConfig,
        "proxy": ProxyConfig,
        "short": ShortConfig,
        "supernet": SupernetConfig,
    },
    "latency": {
        "auto": AutoLatencyConfig,
        "table": TableLatencyConfig,
        "regression": RegressionLatencyConfig,
        "blocks": BlocksLatencyConfig,
        "probe": ProbeLatencyConfig,
        "transfer": TransferLatencyConfig,
        "mapped": MappedLatencyConfig,
        "corun": CorunLatencyConfig,
    },
}
"""Every name of the package that a group of the configuration knows; plug-ins add theirs."""

_ARCHIVE = "`python -m nas.data import FOLDER` converts the official archive into tables"
REMOVED = {"accuracy/nats": _ARCHIVE, "latency/nats": _ARCHIVE}
"""Advice for names of earlier versions, by group and name."""


@dataclass
class SearchConfig:
    """Everything that decides a search; conf/search.yaml holds the defaults."""

    T: str
    E: str | None
    P: str | None
    device: Any  # a name; with latency=probe an address, or a list of them
    space: str
    dataset: str  # a task of the space
    split: Split
    epochs: int
    budget: int
    seed: int
    runs: str
    resume: str | None
    data: str | None = None  # own images
    side: int | None = None  # pixels of own images
    confidence: float = 0.95  # that a network with a predicted latency is truly within T
    hours: float = 1.0  # that a search on own images takes, with the winner's training
    verbose: bool = False
    workers: int | None = None  # evaluations at once, of an asynchronous search
    executor: Workers = Workers.processes  # where networks are trained on own images
    objectives: list[str] | None = None  # accuracy and latency: the front, for every T
    scenario: str | None = None  # what goes on beside the network, with latency=corun
    export: bool = False  # write the answer as ONNX files at the end
    reward: Reward = MISSING
    controller: ControllerConfig = MISSING
    accuracy: AccuracyConfig = MISSING
    latency: LatencyConfig = MISSING


@final
@dataclass(frozen=True)
class Experiment:
    """The objects of one search."""

    config: SearchConfig
    problem: SearchProblem
    controller: Controller
    source: Simulated | None  # of an asynchronous search; None: answers are instant
    images: ImageSet | None = None  # of a search on own images


def register() -> dict[str, str]:
    """Tell Hydra the names and their types, those of plug-ins included.

    Returns advice for each `<group>/<name>` that cannot be used: removed, or a broken plug-in.
    """
    OmegaConf.register_new_resolver("milliseconds", milliseconds, replace=True)
    OmegaConf.register_new_resolver("default_controller", _default_controller, replace=True)
    OmegaConf.register_new_resolver("default_of", default_of, replace=True)
    ConfigStore.instance().store(name="search_schema", node=SearchConfig)
    for group, names in NAMES.items():
        for name, kind in names.items():
            _store(group, name, kind)
    advice = dict(REMOVED)
    for group in NAMES:
        for name, point in plug_ins_of(group).items():
            try:
                _store(group, name, config_of(group, load(group, point)))
            except UserError as error:  # noqa: PERF203 - the others are still there
                advice[f"{group}/{name}"] = str(error)
    return advice


def add_part(group: str, part: Any) -> dict[str, Any]:
    """Give a part of the user's own, or an object of the package's settings, a name in this process.

    Returns the settings that choose it: its name, and the values that it holds.

    Raises:
      UserError: if it is none of what the group takes.
    """
    kind = config_of(group, part)
    names = {kind: name.removesuffix("_schema") for name, kind in NAMES[group].items()}
    name = names.get(kind, kind.__name__)
    if kind not in names:
        if name in names.values():
            raise UserError(f"{group}={name} is a name of the package; choose another name")
        _store(group, name, kind)
    return {group: name, **{f"{group}.{key}": value for key, value in values_of(part).items()}}


def _store(group: str, name: str, kind: type[Any]) -> None:
    store = ConfigStore.instance()
    stored = store.repo.get(group, {}).get(f"{name}.yaml")
    if stored is not None and OmegaConf.get_type(stored.node) is kind:
        return
    node = OmegaConf.structured(kind)
    if group == "reward":
        node.target_ms = "${milliseconds:${T}}"
    store.store(group=group, name=name, node=node)


def _default_controller(latency: str) -> str:
    """The controller of a search that names none, by its latency source: few queries of a live board."""
    return "guided" if latency == "probe" else "reinforce"


def build(composed: DictConfig) -> Experiment:
    """The objects of a composed configuration.

    Raises:
      UserError: if a value is out of its range, or a source cannot answer.
    """
    limit_ms = milliseconds(str(composed.T))
    require_complete(composed)
    try:
        config = OmegaConf.to_object(composed)
    except OmegaConfBaseException as error:
        reason = error.__cause__ if isinstance(error.__cause__, UserError) else error
        raise UserError(str(reason).splitlines()[0]) from error
    except ValueError as error:
        raise UserError(str(error)) from error
    if not isinstance(config, SearchConfig):
        raise TypeError(f"composed a {type(config).__name__}, not a SearchConfig")
    if config.reward.target_ms != limit_ms:
        raise UserError(
            f"reward.target_ms={config.reward.target_ms:g} is not T; set T={composed.T}"
        )
    _check_values(config)
    _choose_objectives(config)
    space = space_named(config.space)
    images = _own_images(config, space)
    task = task_named(space, config.dataset) if images is None else images.task
    try:
        controller = config.controller.build(space, [config.seed])
    except ValueError as error:
        raise UserError(str(error)) from error
    problem = SearchProblem(
        space,
        task,
        _accuracy(config, space, task, images),
        _latency(config, limit_ms, space, task),
        config.reward,
        limit_ms,
        limits_of(config.E, config.P, addresses(config.device), space, task),
        config.confidence,
    )
    if problem.uncertainty and config.confidence > (most := problem.uncertainty.most_confidence):
        raise UserError(
            f"confidence={config.confidence:g} is more than predictions can promise in space={space.name}: "
            f"{most:g} at most"
        )
    source = None
    if config.workers is not None and images is None:
        source = simulated(problem, config.epochs)
    return Experiment(config, problem, controller, source, images)


def _choose_objectives(config: SearchConfig) -> None:
    """Have the controller search for the front, if that is the objective.

    Raises:
      UserError: if there is no such objective, or the controller maximises a reward.
    """
    if config.objectives is None:
        return
    if sorted(config.objectives) != ["accuracy", "latency"]:
        raise UserError(
            f"objectives=[{','.join(config.objectives)}] must be [accuracy,latency]; leave it out to "
            f"search for the best within T"
        )
    if config.data is not None:
        raise UserError("objectives= is for benchmarks; with data=, leave it out")
    if isinstance(config.controller, GuidedConfig):
        config.controller.front = True
    elif not isinstance(config.controller, Nsga2Config):
        raise UserError(
            "objectives=[accuracy,latency]: this controller maximises a reward; add "
            "controller=guided or controller=nsga2"
        )


def _check_values(config: SearchConfig) -> None:
    """Refuse numbers out of their range.

    Raises:
      UserError: for the first of them.
    """
    for name, value, least in (
        ("budget", config.budget, 1),
        ("controller.batch_size", config.controller.batch_size, 1),
        ("seed", config.seed, 0),
        ("workers", 1 if config.workers is None else config.workers, 1),
    ):
        if value < least:
            raise UserError(f"{name}={value} must be at least {least}")
    if not 0 <= config.confidence <= MOST_CONFIDENCE:
        raise UserError(
            f"confidence={config.confidence:g} must lie between 0, which takes predictions as they are, and "
            f"{MOST_CONFIDENCE:g}"
        )


def _own_images(config: SearchConfig, space: SearchSpace) -> ImageSet | None:
    """The images of `data=`; a search on a benchmark has none.

    Raises:
      UserError: if they cannot be opened, or a setting does not go with them.
    """
    if config.data is None:
        if config.side is not None:
            raise UserError(f"side={config.side} is for own images; add data=")
        return None
    require_hours(config.hours)
    if config.epochs < 1:
        raise UserError(f"epochs={config.epochs} must be at least 1")
    for name, value, default in (
        ("dataset", config.dataset, "auto"),
        ("split", config.split, Split.auto),
    ):
        if value != default:
            raise UserError(f"{name}= is for benchmarks; with data={config.data}, leave it out")
    if config.executor is Workers.ray and config.workers is None:
        raise UserError("executor=ray: set workers=, the number of trainings at once")
    if config.executor is Workers.threads and (config.workers or 1) > 1:
        raise UserError(
            f"executor=threads trains one network at a time; with workers={config.workers}, take "
            f"executor=processes"
        )
    side = _timed_side(space) if config.side is None else config.side
    from nas.accuracy.images.open import open_images  # noqa: PLC0415 - a search on tables has none

    return open_images(config.data, side=side)


def _timed_side(space: SearchSpace) -> int:
    """Pixels of the images that a space's latencies are known for."""
    return space.tasks[space.default_task].image_side


def _accuracy(
    config: SearchConfig, space: SearchSpace, task: Task, images: ImageSet | None
) -> Accuracy:
    """The accuracy source; own images are ranked in stages by default."""
    chosen = config.accuracy
    if images is None:
        return chosen.build(space, task, config.split, config.epochs)
    if isinstance(chosen, AutoAccuracyConfig):
        chosen = config.accuracy = StagedConfig()
    if not isinstance(chosen, OwnImagesConfig):
        raise UserError(
            f"data={config.data}: networks are ranked by accuracy=staged, proxy, short or supernet; a "
            f"benchmark's numbers say nothing of your images"
        )
    return chosen.of(images, space)


def _latency(
    config: SearchConfig, limit_ms: float, space: SearchSpace, task: Task
) -> LatencyOracle:
    """The latency source; tables and models are for images of the side that was timed.

    Raises:
      UserError: if it cannot answer for this device, or for images of this side.
    """
    timed = _timed_side(space)
    is_live = isinstance(config.latency, ProbeLatencyConfig)
    if config.data is not None and task.image_side != timed and not is_live:
        raise UserError(
            f"side={task.image_side}: latencies of device={config.device} are known for images of "
            f"{timed} pixels; leave side out, or measure live with latency=probe"
        )
    return config.latency.build(_device(config, limit_ms), space, task)


def _device(config: SearchConfig, limit_ms: float) -> str:
    """Device name for the latency source; the addresses of a list are separated by spaces."""
    if config.device is None:
        raise UserError(
            f"device is not set, and space={config.space} has no default; `python -m nas.data list "
            f"space={config.space}` shows the known ones, `python -m nas.measure space={config.space} "
            f"board=<name>` times another"
        )
    device = addresses(config.device)
    if config.scenario is not None and not isinstance(config.latency, CorunLatencyConfig):
        raise UserError(f"scenario={config.scenario} is for latency=corun; add it")
    if isinstance(config.latency, MappedLatencyConfig):
        _require_one_t(config, config.latency, limit_ms)
    if not isinstance(config.latency, ProbeLatencyConfig):
        if "://" in device:
            raise UserError(
                f"device={device} is an address of a board; add latency=probe to ask it"
            )
    elif (config.latency.unrunnable_ms or math.inf) <= limit_ms:
        raise UserError(
            f"latency.unrunnable_ms={config.latency.unrunnable_ms:g} is within T; a network that "
            f"the board cannot run must count as slower"
        )
    return device


def _require_one_t(config: SearchConfig, latency: MappedLatencyConfig, limit_ms: float) -> None:
    """Refuse a T other than `latency.limit`, and an energy limit, with latency=mapped."""
    if milliseconds(latency.limit) != limit_ms:
        raise UserError(f"latency.limit={latency.limit} is not T; set T={latency.limit}")
    if config.E is not None:
        raise UserError(
            f"E={config.E} is the energy on device={config.device}, but with latency=mapped the "
            f"network may run on another; leave E out, or search for one device"
        )
