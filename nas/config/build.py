"""The only place where names become classes and configs become objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from hydra.core.config_store import ConfigNode, ConfigStore
from omegaconf import MISSING, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from controller.base import Controller, ControllerConfig
from edgenas_core.command.bounds import require_hours
from edgenas_core.command.hydra_command import require_complete
from edgenas_core.command.plug_ins import GROUPS, load
from edgenas_core.types.errors import UserError
from edgenas_core.types.task import Task
from edgenas_core.types.units import milliseconds
from latency.base import LatencyConfig, LatencyOracle, OnSeveralDevices
from latency.devices.registry import find
from latency.models.confidence import MOST_CONFIDENCE
from latency.probe.address import addresses
from latency.probe.settings import BoardPrecision
from nas.accuracy.base import Accuracy, AccuracyConfig, HasWeights, Inherits, Split
from nas.accuracy.table import AutoAccuracyConfig
from nas.config.limits import limits_of
from nas.config.own_parts import config_of, values_of
from nas.fit.training.recipe import usual_recipe, with_augmentation
from nas.spaces.base import SearchSpace, searched_part, task_named
from nas.spaces.registry import default_of, default_space, is_object, plug_ins_of, space_named
from nas.spaces.trusted_code import MARK, absolute, trust
from nas.trials.executor import Simulated, Workers
from nas.trials.problem import RewardedProblem
from rewards.base import Reward
from rewards.constrained import ConstrainedReward

if TYPE_CHECKING:
    from nas.fit.learners.data import TrainingData

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
        "guided_schema": "controller.model_based.guided:GuidedConfig",
        "uniform_schema": "controller.uniform:UniformConfig",
        "evolution_schema": "controller.evolution:EvolutionConfig",
        "local_search_schema": "controller.local_search:LocalSearchConfig",
        "exhaustive_schema": "controller.exhaustive:ExhaustiveConfig",
        "nsga2_schema": "controller.libraries.settings:Nsga2Config",
        "tpe_schema": "controller.libraries.settings:TpeConfig",
    },
    "accuracy": {
        "auto": "nas.accuracy.table:AutoAccuracyConfig",
        "table": "nas.accuracy.table:TableAccuracyConfig",
        "surrogate": "nas.accuracy.table:SurrogateAccuracyConfig",
        "staged": "nas.fit.own_images:StagedConfig",
        "fine_tuning": "nas.fit.own_images:FineTuningConfig",
        "supernet": "nas.fit.own_images:SupernetConfig",
        "inherited": "nas.fit.own_images:InheritedConfig",
    },
    "latency": {
        "auto": "latency.sources.table:AutoLatencyConfig",
        "table": "latency.sources.table:TableLatencyConfig",
        "regression": "latency.sources.table:RegressionLatencyConfig",
        "blocks": "latency.sources.blocks:BlocksLatencyConfig",
        "layers": "latency.sources.layers:LayersLatencyConfig",
        "probe": "latency.sources.probe:ProbeLatencyConfig",
        "transfer": "latency.sources.transfer:TransferLatencyConfig",
        "corun": "latency.sources.corun:CorunLatencyConfig",
    },
}
"""Class of every name of the package, imported when the name is chosen; plug-ins add theirs."""


_PRETRAINED, _ELASTIC, _HERE = "pretrained", "elastic", "here"
"""Name of the space that has weights, and of this machine as a device."""

STARTS = {
    "segmentation": "lraspp_mobilenet_v3_large",
    "detection": "ssdlite320_mobilenet_v3_large",
}
"""Network of torchvision that a task begins with."""

_HEADS = {"segmentation": "lraspp-", "detection": "ssdlite-"}
"""What the name of a network of timm follows, to have the task's head."""

_TASK_SIDE = 128
"""Pixels of the images of such a task, by default."""

FROM_SCRATCH = "residual"
"""Name of the space of own images where no weights are at hand."""


def no_weights() -> str:
    """Advice for a search on own images that begins with new weights."""
    from nas.fit.starts.pretrained.hub import how_to_copy  # noqa: PLC0415 - tables need no web client

    return (
        "no pretrained weights are at hand; with internet and the extra `networks` (pip install "
        f"'.[networks]') they come from timm's hub; or {how_to_copy()}"
    )


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
    task: str | None = None  # that they are for; None: classification
    learner: str | None = None  # FILE.py:NAME of a task of one's own
    weights: str | None = None  # folder of pretrained networks
    weights_digest: str | None = None  # git blob id of weights that are not the published ones
    pool: Any = None  # those to choose from: names of timm, folders, functions
    network: str | None = None  # FILE.py:FUNCTION of a trained network to make smaller
    networks: int = 60  # that a live device times before a model predicts others
    side: int | None = None  # pixels of own images
    multiple: int | None = None  # of numbers of channels that network= is cut to; None: 8
    augment: str = "auto"  # of own images: none, or flip, crop, rand_augment with commas
    precision: BoardPrecision | None = None  # of the files that a live device times
    RAM: str | None = None  # of a microcontroller, for the int8 .tflite file
    flash: str | None = None
    confidence: float = 0.95  # share of answers of predicted latencies that are within T
    hours: float = 1.0  # that a search on own images takes, with the winner's training
    verbose: bool = False
    workers: int | None = None  # evaluations at once, of an asynchronous search
    executor: Workers = Workers.processes  # where networks are trained on own images
    objectives: list[str] | None = None  # accuracy and latency: the front, for every T
    scenario: str | None = None  # what goes on beside the network, with latency=corun
    export: bool = False  # write the answer as ONNX files at the end
    report: bool = True  # draw the page at the end
    reward: Reward = MISSING
    controller: ControllerConfig = MISSING
    accuracy: AccuracyConfig = MISSING
    latency: LatencyConfig = MISSING


@final
@dataclass(frozen=True)
class Experiment:
    """The objects of one search."""

    config: SearchConfig
    problem: RewardedProblem
    controller: Controller
    source: Simulated | None  # of an asynchronous search; None: answers are instant
    images: TrainingData | None = None  # of a search on own images


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
    OmegaConf.register_new_resolver("own_data", _own_data, replace=True)
    OmegaConf.register_new_resolver("default_space", _default_space, replace=True)
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


def _default_controller(latency: str) -> str:
    """The controller of a search that names none, by its latency source: few queries of a live board."""
    return "guided" if latency in {"probe", "layers"} else "reinforce"


def _own_data(data: str | None, task: str | None, learner: str | None) -> str | None:
    """What own networks are trained for, as one text."""
    if task is None and learner is None:
        return data
    from nas.fit.learners.opened import data_text  # noqa: PLC0415 - a search on tables has none

    return data_text(data, task, learner)


def _default_space(
    data: str | None, weights: Any, pool: Any, network: str | None, *, _root_: DictConfig
) -> str:
    """The space of a search that names none: of own images, pretrained networks if they can be had.

    Devices that are known by their tables and models are those of the default space.
    """
    if network is not None:
        return FROM_SCRATCH  # for its defaults, until the network is built
    if data is None:
        return default_space()
    is_named = weights is not None or pool is not None
    if not is_named and not OmegaConf.is_interpolation(_root_, "device"):
        device = addresses(_root_.device)
        if device != _HERE and "://" not in device:
            return default_space()
    at_hand = is_named or (data != "digits" and ":" not in data and _has_weights())
    return _PRETRAINED if at_hand else FROM_SCRATCH


def _has_weights() -> bool:
    """Whether a pretrained network is here, or can be fetched."""
    from nas.fit.starts.pretrained.pool import any_at_hand  # noqa: PLC0415 - as above

    return any_at_hand()


def build(composed: DictConfig) -> Experiment:
    """The objects of a composed configuration.

    Raises:
      UserError: if a value is out of its range, or a source cannot answer.
    """
    limit_ms = milliseconds(str(composed.T))
    require_complete(composed)
    own = _own_data(composed.data, composed.task, composed.learner)
    if own is not None:  # own images are ranked without a reward
        composed = composed.copy()
        composed.update(data=own, task=None, learner=None, space=composed.space)
        composed.reward = OmegaConf.structured(ConstrainedReward(limit_ms))
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
    space = _space(config)
    _measure_live(config)
    _choose_precision(config)
    images = _own_images(config, space)
    task = task_named(space, config.dataset) if images is None else images.task
    oracle = _latency(config, limit_ms, space, task)
    space = searched_part(space, oracle)
    try:
        controller = config.controller.build(space, [config.seed])
    except ValueError as error:
        raise UserError(str(error)) from error
    problem = RewardedProblem(
        space,
        task,
        _accuracy(config, space, task, images),
        oracle,
        limit_ms,
        limits_of(
            config.E,
            config.P,
            addresses(config.device),
            space,
            task,
            memory={"RAM": config.RAM, "flash": config.flash},
        ),
        config.confidence,
        reward=config.reward,
    )
    if problem.uncertainty and config.confidence > (most := problem.uncertainty.most_confidence):
        raise UserError(
            f"confidence={config.confidence:g} is more than predictions can promise in space={space.name}: "
            f"{most:g} at most"
        )
    source = None
    if config.workers is not None and images is None:
        from nas.config.simulated import simulated  # noqa: PLC0415 - other searches have no clock

        source = simulated(problem, config.epochs)
    return Experiment(config, problem, controller, source, images)


def space_of_network(network: object, settings: Mapping[str, Any]) -> SearchSpace:
    """The sub-networks of a trained module, by the settings `side` and `multiple`.

    Raises:
      UserError: if it is no module, or cannot be analysed.
    """
    from torch import nn  # noqa: PLC0415 - a module needs it

    from nas.fit.starts.elastic.loading import elastic_space  # noqa: PLC0415 - as above
    from nas.fit.starts.elastic.space import MULTIPLE  # noqa: PLC0415 - as above

    if not isinstance(network, nn.Module):
        raise UserError(f"network={network!r:.200} is no torch.nn.Module")
    multiple = settings.get("multiple") or MULTIPLE
    return elastic_space(network, side=settings.get("side"), multiple=multiple)


def _space(config: SearchConfig) -> SearchSpace:
    """The search space; `pool=` and `weights=` make one of these networks.

    Raises:
      UserError: if there is none, or it needs what other settings lack.
    """
    _choose_start(config)
    config.space = _space_name(config)
    trust(config.space)
    space = space_named(config.space)
    if config.multiple not in {None, getattr(space, "multiple", None)}:
        raise UserError(f"multiple={config.multiple} is for network=")
    if isinstance(space, HasWeights | Inherits) and config.data is None:
        raise UserError(f"space={config.space} is for your own images; add data=")
    if isinstance(space, HasWeights):
        from nas.fit.learners.opened import is_task  # noqa: PLC0415 - a search on tables has none

        if is_task(config.data):
            task = str(config.data).partition(":")[0]
            raise UserError(
                f"{task}: space={config.space} is for classification; begin with a trained network by "
                f"network=, or choose space={FROM_SCRATCH} or one of your own"
            )
        if config.side is not None:
            raise UserError(f"side={config.side}: with space={config.space}, the search chooses it")
        if config.space == _PRETRAINED and not _has_weights():
            raise UserError(f"space={_PRETRAINED}: {no_weights()}")
    return space


def _choose_start(config: SearchConfig) -> None:
    """Begin with the task's network, or that of timm with its head, for as many classes as the data have.

    Raises:
      UserError: if the data cannot be opened.
    """
    task = str(config.data).partition(":")[0]
    start = STARTS.get(task)
    if start is None or config.space not in {FROM_SCRATCH, _ELASTIC}:
        return
    config.side = config.side or _TASK_SIDE
    named = config.network or start
    if named == start or named.startswith(_HEADS[task]):
        from nas.fit.learners.opened import open_data  # noqa: PLC0415 - as of a search on images

        data = open_data(str(config.data), side=config.side)
        config.network = f"{named}/{data.task.num_classes}"


def _space_name(config: SearchConfig) -> str:
    """Name of the space with what it is made of.

    Raises:
      UserError: if two settings make two spaces.
    """
    weights = config.weights
    if config.network is not None:
        if config.space not in {FROM_SCRATCH, _ELASTIC}:
            raise UserError(f"network= is for space={_ELASTIC}, and space={config.space} was named")
        side = "" if config.side is None else str(config.side)
        multiple = "" if config.multiple is None else f",{config.multiple}"
        paths = absolute(config.network), absolute(weights or "")
        if "," in "".join(paths):
            raise UserError(f"{' '.join(paths)}: no path of network= and weights= may have a comma")
        return f"{_ELASTIC}:{','.join(paths)},{side}{multiple}"
    if weights is None and config.pool is None:
        return config.space
    if config.space == _PRETRAINED:
        from nas.fit.starts.pretrained.pool import pool_text  # noqa: PLC0415 - as above

        return f"{_PRETRAINED}:{pool_text(config.pool, weights)}"
    if weights is None or not hasattr(space_named(config.space), "with_argument"):
        raise UserError(
            f"pool= and weights= are for your own images, data=, and not for space={config.space}"
        )
    return f"{config.space}:{Path(weights).expanduser().absolute()},{config.weights_digest or ''}"


def _measure_live(config: SearchConfig) -> None:
    """Where the device is this machine or, with own images, an address, measure it live by default.

    Times of this machine, where other work goes on, are marked and do not stop the search.
    """
    is_here = addresses(config.device) == _HERE
    if not is_here and (config.data is None or "://" not in addresses(config.device)):
        return
    from edgenas_core.machine.stability import OnDisturbance  # noqa: PLC0415 - likewise
    from latency.sources.probe import ProbeLatencyConfig  # noqa: PLC0415 - as its name is chosen
    from latency.sources.table import AutoLatencyConfig  # noqa: PLC0415 - as its name is chosen

    if isinstance(config.latency, AutoLatencyConfig):
        on_disturbance = OnDisturbance.flag if is_here else OnDisturbance.stop
        config.latency = ProbeLatencyConfig(on_disturbance=on_disturbance)
    if is_here and config.latency.is_live:
        config.device = "cmd://"


def live_settings(chosen: Mapping[str, Any]) -> dict[str, str]:
    """Settings to add where those of a live board are named, as latency.tries, and no source of latencies.

    Args:
      chosen: settings by their full names.
    """
    is_own = "data" in chosen or "learner" in chosen
    by_default = is_own and chosen.get("space", FROM_SCRATCH) in {FROM_SCRATCH, _PRETRAINED}
    device = addresses(chosen.get("device", _HERE if by_default else ""))
    is_live = device == _HERE or (is_own and "://" in device)
    if "latency" in chosen or not is_live or not any(n.startswith("latency.") for n in chosen):
        return {}
    flagged = {"latency.on_disturbance": "flag"} if device == _HERE else {}
    return {"latency": "probe", **flagged}


def _choose_precision(config: SearchConfig) -> None:
    """Have a live device time files of this precision.

    Raises:
      UserError: if latencies come from elsewhere, of a device of another precision.
    """
    from latency.sources.probe import ProbeLatencyConfig  # noqa: PLC0415 - as its name is chosen

    precision, device = config.precision, addresses(config.device)
    if config.data is not None and precision is BoardPrecision.int8:
        config.export = True  # which tells the accuracy of the int8 files
    if config.export and (config.RAM or config.flash):
        from edgenas_core.inference.formats.tflite_export import require_converter  # noqa: PLC0415 - imports torch

        try:
            require_converter()
        except ValueError as missing:
            raise UserError(
                f"RAM= and flash= with precision=int8 or export=true: {missing}"
            ) from missing
    if precision is None or f"/{precision.value}/" in device:
        return
    if not isinstance(config.latency, ProbeLatencyConfig):
        raise UserError(
            f"precision={precision.value}: device={device} names another precision, or none; name a "
            f"device of {precision.value}, or measure one with latency=probe"
        )
    config.latency.precision = precision


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
    try:
        config.controller.search_front()
    except ValueError as error:
        raise UserError(str(error)) from error


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
        ("networks", config.networks, 6),
        ("multiple", 1 if config.multiple is None else config.multiple, 1),
    ):
        if value < least:
            raise UserError(f"{name}={value} must be at least {least}")
    if not 0 <= config.confidence <= MOST_CONFIDENCE:
        raise UserError(
            f"confidence={config.confidence:g} must lie between 0, which takes predictions as they are, and "
            f"{MOST_CONFIDENCE:g}"
        )


def _own_images(config: SearchConfig, space: SearchSpace) -> TrainingData | None:
    """The images of `data=`; a search on a benchmark has none.

    Raises:
      UserError: if they cannot be opened, or a setting does not go with them.
    """
    if config.data is None:
        if config.side is not None:
            raise UserError(f"side={config.side} is for own images; add data=")
        if config.augment != "auto":
            raise UserError(f"augment={config.augment} is for own images; add data=")
        return None
    # unknown names are refused before a board is opened
    with_augmentation(usual_recipe(space.name), config.augment, config.data)
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
    return _opened(config, side)


def _opened(config: SearchConfig, side: int) -> TrainingData:
    """What networks are trained on.

    Raises:
      UserError: if it cannot be opened, or a setting is for classification alone.
    """
    from nas.fit.learners.opened import is_task, open_data  # noqa: PLC0415 - a search on tables has none

    if not is_task(config.data):
        return open_data(str(config.data), side=side)
    task = str(config.data).partition(":")[0]
    if config.precision is BoardPrecision.int8:
        raise UserError(f"{task}: precision=int8 is judged for classification only; leave it out")
    return open_data(str(config.data), side=config.side if task == "learner" else side)


def _timed_side(space: SearchSpace) -> int:
    """Pixels of the images that a space's latencies are known for."""
    return space.tasks[space.default_task].image_side


def _accuracy(
    config: SearchConfig, space: SearchSpace, task: Task, images: TrainingData | None
) -> Accuracy:
    """The accuracy source; own images are ranked in stages by default."""
    chosen = config.accuracy
    if images is None:
        return chosen.build(space, task, config.split, config.epochs)
    from nas.fit.data.image_set import ImageSet  # noqa: PLC0415 - a search on tables has none
    from nas.fit.own_images import (  # noqa: PLC0415 - a search on tables has no images
        FineTuningConfig,
        InheritedConfig,
        OwnImagesConfig,
        StagedConfig,
    )

    begins_with_weights = isinstance(space, HasWeights)
    if isinstance(chosen, AutoAccuracyConfig):
        is_new = config.weights is None and MARK not in (config.network or MARK)
        inherited = InheritedConfig(recipe="scenes" if is_new else "fine_tuning")
        inherits = inherited if isinstance(space, Inherits) else StagedConfig()
        chosen = config.accuracy = FineTuningConfig() if begins_with_weights else inherits
    if isinstance(chosen, FineTuningConfig) is not begins_with_weights:
        raise UserError(f"this accuracy= is not for space={config.space}; leave it out")
    if isinstance(chosen, InheritedConfig) and not isinstance(space, Inherits):
        raise UserError(f"accuracy=inherited is not for space={config.space}; leave it out")
    if not isinstance(chosen, OwnImagesConfig):
        raise UserError(
            f"data={config.data}: networks are ranked by accuracy=staged or supernet; a "
            f"benchmark's numbers say nothing of your images"
        )
    recipe = usual_recipe(space.name) if chosen.recipe == "auto" else chosen.recipe
    augment = config.augment if isinstance(images, ImageSet) else "none"
    chosen.recipe = with_augmentation(recipe, augment, config.data)
    return chosen.of(images, space)


def _latency(
    config: SearchConfig, limit_ms: float, space: SearchSpace, task: Task
) -> LatencyOracle:
    """The latency source; tables and models are for images of the side that was timed.

    Raises:
      UserError: if it cannot answer for this device, or for images of this side.
    """
    timed = _timed_side(space)
    is_any = config.latency.is_live or config.latency.any_side
    if config.data is not None and task.image_side != timed and not is_any:
        raise UserError(
            f"side={task.image_side}: latencies of device={config.device} are known for images of "
            f"{timed} pixels; leave side out, or measure live with latency=probe"
        )
    config.latency.require_limit(limit_ms)
    device = _device(config)
    try:
        oracle = config.latency.build(device, space, task)
    except UserError as error:
        if not isinstance(space, HasWeights) or config.latency.is_live:
            raise
        is_timed = find(space_named(default_space()), device) is not None
        other = f"; space={default_space()} without weights= has times of it" if is_timed else ""
        raise UserError(
            f"no latency of pretrained networks is known or predicted on device={device}: time them on the "
            f"board, device=ssh://<board>, or on this machine, device=here{other}"
        ) from error
    if config.E is not None and isinstance(oracle, OnSeveralDevices):
        raise UserError(
            f"E={config.E} is the energy on device={config.device}, but with latency=mapped the "
            f"network may run on another; leave E out, or search for one device"
        )
    return oracle


def _device(config: SearchConfig) -> str:
    """Device name for the latency source; the addresses of a list are separated by spaces."""
    if config.device is None:
        if is_object(config.space):
            raise UserError('device is not set; device="here" times the networks on this machine')
        raise UserError(
            f"device is not set, and space={config.space} has no default; `python -m nas.data list "
            f"space={config.space}` shows the known ones, `python -m nas.measure space={config.space} "
            f"board=<name>` times another"
        )
    device = addresses(config.device)
    if config.scenario is not None and not hasattr(config.latency, "scenario"):
        raise UserError(f"scenario={config.scenario} is for latency=corun; add it")
    if "://" in device and not config.latency.is_live:
        raise UserError(f"device={device} is an address of a board; add latency=probe to ask it")
    return device
