"""The only place where names become classes, and a search becomes objects."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint
from typing import Any, final

from hydra.core.config_store import ConfigNode, ConfigStore
from omegaconf import MISSING, DictConfig, OmegaConf

from controller.base import Controller, ControllerConfig
from edgenas_core.command.plug_ins import GROUPS, load
from edgenas_core.command.settings import setting
from edgenas_core.types.architectures import Enumerable
from edgenas_core.types.errors import UserError
from edgenas_core.types.units import milliseconds
from nas.accuracy.base import AccuracyConfig, HasWeights, Inherits, Split
from nas.accuracy.other_tasks import taught
from nas.config.own_parts import config_of, values_of
from nas.config.run_config import (
    Experiment,
    RunConfig,
    further_limits,
    limit_ms_of,
    oracle_of,
    require_confidence,
    require_values,
    settings_object,
    with_live_latency,
    with_precision,
)
from nas.spaces.base import SearchSpace, searched_part, task_named
from nas.spaces.registry import default_of, default_space, plug_ins_of, space_named
from nas.spaces.trusted_code import trust
from nas.trials.executor import Simulated
from nas.trials.problem import RewardedProblem
from rewards.base import Reward

NAMES: dict[str, dict[str, str]] = {
    "reward": {
        "proposed": "rewards.proposed:ProposedReward",
        "mnasnet": "rewards.mnasnet:MnasReward",
        "absolute": "rewards.absolute:AbsoluteReward",
        "constrained": "rewards.constrained:ConstrainedReward",
    },
    "controller": {
        # `_schema`: conf/controller/ holds the values
        "reinforce_schema": "controller.policy.reinforce:ReinforceConfig",
        "rnn_schema": "controller.policy.rnn:RnnConfig",
        "guided": "controller.model_based.guided:GuidedConfig",
        "uniform": "controller.uniform:UniformConfig",
        "evolution_schema": "controller.evolution:EvolutionConfig",
        "local_search": "controller.local_search:LocalSearchConfig",
        "exhaustive": "controller.exhaustive:ExhaustiveConfig",
        "nsga2": "controller.libraries.settings:Nsga2Config",
        "tpe": "controller.libraries.settings:TpeConfig",
    },
    "accuracy": {
        "auto": "nas.accuracy.table:AutoAccuracyConfig",
        "table": "nas.accuracy.table:TableAccuracyConfig",
        "surrogate": "nas.accuracy.table:SurrogateAccuracyConfig",
    },
    "latency": {
        "auto": "latency.sources.table:AutoLatencyConfig",
        "table": "latency.sources.table:TableLatencyConfig",
        "regression": "latency.sources.table:RegressionLatencyConfig",
        "layers": "latency.sources.layers:LayersLatencyConfig",
        "probe": "latency.sources.probe:ProbeLatencyConfig",
        "transfer": "latency.sources.transfer:TransferLatencyConfig",
        "published": "latency.sources.published:PublishedLatencyConfig",
    },
}
"""Class of every name of the package, imported when the name is chosen; plug-ins add theirs."""

_SLOW_SOURCES = {"probe", "layers"}
"""Sources of latencies that are asked for few networks."""


@final
@dataclass
class SearchConfig(RunConfig):
    """Everything that decides a search on tables, predictors and boards."""

    reward: Reward = setting(
        MISSING,
        "Reward that is maximised. constrained: its maximum is the most accurate network within T; proposed, mnasnet, "
        "mnasnet_hard, absolute: for studies.",
        heading="What to search (name=value)",
    )
    controller: ControllerConfig = setting(
        MISSING,
        "How architectures are proposed: reinforce (policy gradient), rnn (the same as published), guided, "
        "evolution, local_search, uniform, exhaustive, and with the extra `searchers` nsga2 and tpe; "
        "docs/how-to/choose-a-searcher.md compares them. "
        "By default guided with latency=probe; else local_search without reward=, and reinforce with it.",
    )
    accuracy: AccuracyConfig = setting(
        MISSING,
        "Source of accuracies: auto (a table if there is one), table, surrogate, or that of a plug-in: ofa "
        "(edgenas[mobilenet-v3]).",
    )
    objectives: list[str] | None = setting(
        None,
        "[accuracy,latency] searches for the Pareto front, which has an answer for every T; with controller=guided or nsga2.",
        unset="the best within T",
    )
    dataset: str = setting("auto", "Data set of the space.")
    split: Split = setting(
        Split.auto, "Images on which accuracies were measured; auto: validation images if known."
    )
    budget: int = setting(5000, "Architectures to sample.")


@final
@dataclass(frozen=True)
class SearchExperiment(Experiment):
    """The objects of one search."""

    config: SearchConfig
    problem: RewardedProblem
    controller: Controller
    source: Simulated | None  # of an asynchronous search; None: answers are instant

    @property
    def shows_front(self) -> bool:
        """Whether the front of accuracy and latency is searched for."""
        return self.config.objectives is not None


@final
class _ImportedNode(ConfigNode):
    """The settings of a name, whose class is imported when Hydra asks for them."""

    def __init__(self, group: str, point: EntryPoint) -> None:
        super().__init__(f"{point.name}.yaml", OmegaConf.create(), group, None, None)
        self._point = point
        self._imported: DictConfig | None = None

    @property
    def node(self) -> DictConfig:
        """The default values.

        Raises:
          UserError: if the class cannot be imported, or is no class of settings.
        """
        if self._imported is None:
            group = str(self.group)
            self._imported = _settings(group, config_of(group, load(group, self._point)))
        return self._imported

    @node.setter
    def node(self, node: DictConfig) -> None:
        self._imported = node


def register() -> None:
    """Tell Hydra the names, those of plug-ins included."""
    OmegaConf.register_new_resolver("milliseconds", milliseconds, replace=True)
    OmegaConf.register_new_resolver("default_controller", _default_controller, replace=True)
    OmegaConf.register_new_resolver("default_of", default_of, replace=True)
    store = ConfigStore.instance()
    store.store(name="search_schema", node=SearchConfig)
    for group, names in NAMES.items():
        points = {name: EntryPoint(name, path, GROUPS[group]) for name, path in names.items()}
        nodes = store.repo.setdefault(group, {})
        for name, point in (points | plug_ins_of(group)).items():
            nodes[f"{name}.yaml"] = _ImportedNode(group, point)


def add_part(group: str, part: Any) -> dict[str, Any]:
    """Give a part of the user's own, or an object of the package's settings, a name in this process.

    Returns the settings that choose it: its name, and the values that it holds.

    Raises:
      UserError: if it is none of what the group takes.
    """
    kind = config_of(group, part)
    names = {path: name.removesuffix("_schema") for name, path in NAMES[group].items()}
    path = f"{kind.__module__}:{kind.__qualname__}"
    name = names.get(path, kind.__name__)
    if path not in names:
        if name in names.values():
            raise UserError(f"{group}={name} is a name of the package; choose another name")
        ConfigStore.instance().store(group=group, name=name, node=_settings(group, kind))
    return {group: name, **{f"{group}.{key}": value for key, value in values_of(part).items()}}


def _settings(group: str, kind: type[Any]) -> DictConfig:
    node: DictConfig = OmegaConf.structured(kind)
    if group == "reward":
        node.target_ms = "${milliseconds:${T}}"
    return node


def default_searcher(chosen: Mapping[str, Any]) -> dict[str, str]:
    """The controller of a search that names neither a reward nor a controller: local search.

    Such a search only asks for the best network within T. A named reward keeps the policy gradient, by which rewards
    are compared, a live board keeps `guided`, and so does a space that cannot be listed (`_default_controller`).

    Args:
      chosen: settings by their full names.
    """
    names = r"\+?(reward|controller|objectives|experiment|resume)\b"
    is_named = any(re.match(names, name) for name in chosen)
    if is_named or chosen.get("latency") in _SLOW_SOURCES:
        return {}
    try:
        space = space_named(str(chosen.get("space") or default_space()))
    except UserError:  # named where it is built
        return {}
    return {"controller": "local_search"} if isinstance(space, Enumerable) else {}


def _default_controller(latency: str) -> str:
    """The controller of a search that names none, by its latency source: few queries of a live board."""
    return "guided" if latency in _SLOW_SOURCES else "reinforce"


def build(composed: DictConfig) -> SearchExperiment:
    """The objects of a search.

    Raises:
      UserError: if a value is out of its range, or a source cannot answer.
    """
    limit_ms = limit_ms_of(composed)
    config = _with_front(_checked(settings_object(composed, SearchConfig), limit_ms))
    space = _space(config.space)
    config = with_precision(with_live_latency(config, takes_addresses=False))
    task = task_named(space, config.dataset)
    oracle = oracle_of(config, limit_ms, space, task)
    space = searched_part(space, oracle)
    try:
        choices = taught(space, task) if config.controller.is_taught else space
        controller = config.controller.build(choices, [config.seed])
    except ValueError as error:
        raise UserError(str(error)) from error
    problem = RewardedProblem(
        space,
        task,
        config.accuracy.build(space, task, config.split, config.epochs),
        oracle,
        limit_ms,
        further_limits(config, space, task),
        config.confidence,
        reward=config.reward,
    )
    require_confidence(problem)
    source = None
    if config.workers is not None:
        from nas.config.simulated import simulated  # noqa: PLC0415 - other searches have no clock

        source = simulated(problem, config.epochs)
    return SearchExperiment(config, problem, controller, source)


def _checked(config: SearchConfig, limit_ms: float) -> SearchConfig:
    """The settings.

    Raises:
      UserError: if one is out of its range.
    """
    if config.reward.target_ms != limit_ms:
        raise UserError(f"reward.target_ms={config.reward.target_ms:g} is not T; set T={config.T}")
    least = {
        "budget": (config.budget, 1),
        "controller.batch_size": (config.controller.batch_size, 1),
    }
    require_values(config, least)
    return config


def _with_front(config: SearchConfig) -> SearchConfig:
    """Have the controller search for the front, if that is the objective.

    Raises:
      UserError: if there is no such objective, or the controller maximises a reward.
    """
    if config.objectives is None:
        return config
    if sorted(config.objectives) != ["accuracy", "latency"]:
        raise UserError(
            f"objectives=[{','.join(config.objectives)}] must be [accuracy,latency]; leave it out to "
            f"search for the best within T"
        )
    controller = copy.copy(config.controller)
    try:
        controller.search_front()
    except ValueError as error:
        raise UserError(str(error)) from error
    return replace(config, controller=controller)


def _space(name: str) -> SearchSpace:
    """The search space.

    Raises:
      UserError: if there is none, or its networks are to be trained on the user's data.
    """
    trust(name)
    space = space_named(name)
    if isinstance(space, HasWeights | Inherits):
        raise UserError(
            f"space={name} is for your own data: python -m nas.fit data=<folder> space={name}"
        )
    return space
