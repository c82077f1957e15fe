"""The only place where names become classes and configs become objects."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from controller.base import Controller, ControllerConfig
from controller.evolution import EvolutionConfig
from controller.exhaustive import ExhaustiveConfig
from controller.libraries.nsga2 import Nsga2Config
from controller.libraries.tpe import TpeConfig
from controller.local_search import LocalSearchConfig
from controller.model_based.guided import GuidedConfig
from controller.policy.rnn import RnnConfig
from controller.uniform import UniformConfig
from latency.base import LatencyConfig
from latency.probe.config import addresses
from latency.sources.corun import CorunLatencyConfig
from latency.sources.mapped import MappedLatencyConfig
from latency.sources.probe import ProbeLatencyConfig
from latency.sources.regression import RegressionLatencyConfig
from latency.sources.table import (
    AutoLatencyConfig,
    TableLatencyConfig,
)
from latency.sources.transfer import TransferLatencyConfig
from nas.accuracy.base import AccuracyConfig, Split
from nas.accuracy.slow import SlowAccuracySource
from nas.accuracy.surrogate import SurrogateAccuracyConfig
from nas.accuracy.table import AutoAccuracyConfig, TableAccuracyConfig
from nas.config.limits import limits_of
from nas.config.simulated import simulated
from nas.spaces.base import task_named
from nas.spaces.registry import space_named
from nas.trials.problem import SearchProblem
from rewards.absolute import AbsoluteReward
from rewards.base import Reward
from rewards.constrained import ConstrainedReward
from rewards.mnasnet import MnasReward
from rewards.proposed import ProposedReward
from runtime.shell.errors import UserError
from runtime.shell.units import milliseconds

NAMES: dict[str, dict[str, type[Any]]] = {
    "reward": {
        "proposed": ProposedReward,
        "mnasnet": MnasReward,
        "absolute": AbsoluteReward,
        "constrained": ConstrainedReward,
    },
    "controller": {
        "rnn_schema": RnnConfig,  # `_schema`: conf/controller/ holds the values
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
    },
    "latency": {
        "auto": AutoLatencyConfig,
        "table": TableLatencyConfig,
        "regression": RegressionLatencyConfig,
        "probe": ProbeLatencyConfig,
        "transfer": TransferLatencyConfig,
        "mapped": MappedLatencyConfig,
        "corun": CorunLatencyConfig,
    },
}
"""Every name that a group of the configuration knows. A new reward is one line here."""

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
    workers: int | None = None  # evaluations at once, of an asynchronous search
    scenario: str | None = None  # what goes on beside the network, with latency=corun
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
    source: SlowAccuracySource | None  # of an asynchronous search; None: answers are instant


def register() -> None:
    """Tell Hydra the names and their types."""
    OmegaConf.register_new_resolver("milliseconds", milliseconds, replace=True)
    store = ConfigStore.instance()
    store.store(name="search_schema", node=SearchConfig)
    for group, names in NAMES.items():
        for name, kind in names.items():
            node = OmegaConf.structured(kind)
            if group == "reward":
                node.target_ms = "${milliseconds:${T}}"
            store.store(group=group, name=name, node=node)


def build(composed: DictConfig) -> Experiment:
    """The objects of a composed configuration.

    Raises:
      UserError: if a value is out of its range, or a source cannot answer.
    """
    limit_ms = milliseconds(str(composed.T))
    for name in sorted(OmegaConf.missing_keys(composed)):
        raise UserError(f"{name} is not set; write {name}=<value>")
    try:
        config = OmegaConf.to_object(composed)
    except OmegaConfBaseException as error:
        raise UserError(str(error).splitlines()[0]) from error
    except ValueError as error:
        raise UserError(str(error)) from error
    if not isinstance(config, SearchConfig):
        raise TypeError(f"composed a {type(config).__name__}, not a SearchConfig")
    if config.reward.target_ms != limit_ms:
        raise UserError(
            f"reward.target_ms={config.reward.target_ms:g} is not T; set T={composed.T}"
        )
    for name, value, least in (
        ("budget", config.budget, 1),
        ("controller.batch_size", config.controller.batch_size, 1),
        ("seed", config.seed, 0),
    ):
        if value < least:
            raise UserError(f"{name}={value} must be at least {least}")
    if config.workers is not None and config.workers < 1:
        raise UserError(f"workers={config.workers} must be at least 1")
    space = space_named(config.space)
    task = task_named(space, config.dataset)
    try:
        controller = config.controller.build(space, [config.seed])
    except ValueError as error:
        raise UserError(str(error)) from error
    problem = SearchProblem(
        space,
        task,
        config.accuracy.build(space, task, config.split, config.epochs),
        config.latency.build(_device(config, limit_ms), space, task),
        config.reward,
        limit_ms,
        limits_of(config.E, config.P, config.device, space, task),
    )
    source = None if config.workers is None else simulated(problem, config.epochs)
    return Experiment(config, problem, controller, source)


def _device(config: SearchConfig, limit_ms: float) -> str:
    """Device name for the latency source; the addresses of a list are separated by spaces."""
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
