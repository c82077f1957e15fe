"""The settings of a fit become objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, ListConfig, OmegaConf

from edgenas_core.command.bounds import require_hours
from edgenas_core.command.console import PlainConsole, say
from edgenas_core.command.plug_ins import how_to_install
from edgenas_core.types.errors import UserError
from edgenas_core.types.task import Task
from edgenas_core.types.units import milliseconds
from latency.base import LatencyOracle
from latency.devices.registry import find
from latency.models.microcontrollers import is_chip
from latency.probe.address import addresses
from latency.probe.settings import BoardPrecision
from nas.accuracy.base import HasWeights, Inherits
from nas.config.build import register
from nas.config.run_config import (
    HERE,
    further_limits,
    limit_sets_of,
    live_settings,
    oracle_of,
    require_confidence,
    require_values,
    settings_object,
    with_live_latency,
    with_precision,
)
from nas.fit.config import FitConfig, FitExperiment, StartFrom
from nas.fit.data.image_set import ImageSet
from nas.fit.learners.data import LearnerData, TrainingData
from nas.fit.learners.functions import loaders_alone
from nas.fit.learners.opened import data_text, is_task, open_data
from nas.fit.of_network import (
    is_of_user,
    limit_of_share,
    rehearsed,
    scaling_of_network,
    shape_of,
    share_of_network,
    size_text,
    with_images_of_network,
)
from nas.fit.own_images import FineTuningConfig, InheritedConfig, OwnImagesConfig, StagedConfig
from nas.fit.starts.uncuttable import UncuttableFileError
from nas.fit.training.recipe import usual_recipe, with_augmentation
from nas.spaces.base import SearchSpace, searched_part
from nas.spaces.registry import default_space, space_named
from nas.spaces.trusted_code import absolute, trust
from nas.trials.executor import Workers
from nas.trials.limits import LimitSet
from nas.trials.problem import SearchProblem

PRETRAINED, ELASTIC = "pretrained", "elastic"
"""Names of the spaces of networks with published weights, and of parts of a trained network."""

FROM_SCRATCH = "residual"
"""Name of the space where no weights are at hand."""

STARTS = {
    "segmentation": "lraspp_mobilenet_v3_large",
    "detection": "ssdlite320_mobilenet_v3_large",
}
"""Network of torchvision that a task begins with."""

_HEADS = {"segmentation": "lraspp-", "detection": "ssdlite-"}
"""What the name of a network of timm follows, to have the task's head."""

_TASK_SIDE = 128
"""Pixels of the images of such a task, by default."""


def register_fit() -> None:
    """Tell Hydra the names that a fit may use."""
    register()
    OmegaConf.register_new_resolver("fit_space", _default_space, replace=True)
    ConfigStore.instance().store(name="fit_schema", node=FitConfig)


def live_settings_of_fit(chosen: Mapping[str, Any]) -> dict[str, str]:
    """Settings to add where those of a live board are named, and no source of latencies.

    Args:
      chosen: settings by their full names.
    """
    is_here = chosen.get("space", FROM_SCRATCH) in {FROM_SCRATCH, PRETRAINED}
    return live_settings(chosen, HERE if is_here else "", takes_addresses=True)


def no_weights() -> str:
    """Advice for a fit that begins with random weights."""
    from nas.fit.starts.pretrained.hub import how_to_copy  # noqa: PLC0415 - imports a web client

    return (
        f"no pretrained weights are at hand; with internet and the extra `networks` "
        f"({how_to_install('networks')}) they come from timm's hub; or {how_to_copy()}"
    )


def _default_space(*, _root_: DictConfig) -> str:
    """The space of a fit that names none: pretrained networks if they can be had.

    Devices that are known by their tables and models are those of the default space of searches.
    """
    text = data_text(_root_.data, _root_.task, _root_.learner)
    if _root_.network is not None or text is None:
        return FROM_SCRATCH  # for its defaults, until the network is built
    is_named = _root_.weights is not None or _root_.pool is not None
    if not is_named and not OmegaConf.is_interpolation(_root_, "device"):
        device = addresses(_root_.device)
        if device != HERE and "://" not in device and not is_chip(device):
            return default_space()
    at_hand = is_named or (text != "digits" and ":" not in text and _has_weights())
    return PRETRAINED if at_hand else FROM_SCRATCH


def _has_weights() -> bool:
    """Whether a pretrained network is here, or can be fetched."""
    from nas.fit.starts.pretrained.pool import any_at_hand  # noqa: PLC0415 - imports timm

    return any_at_hand()


def build_fit(composed: DictConfig) -> FitExperiment:
    """The objects of a fit.

    Raises:
      UserError: if a value is out of its range, the data cannot be opened, or a source cannot answer.
    """
    share = share_of_network(composed.T)
    config = settings_object(composed, FitConfig)
    sets = limit_sets_of(composed) if share is None else [_set_of_share(composed)]
    config = replace(
        config, RAM=sets[0].get("RAM", config.RAM), flash=sets[0].get("flash", config.flash)
    )
    limit_ms = 0.0 if share is not None else milliseconds(sets[0]["T"])  # 0 until it is timed
    data = data_text(
        config.data,
        config.task,
        config.learner,
        augment=config.augment,
        groups=config.groups,
        limits=config.range,
        channels=config.channels,
    )
    if data is None:
        raise UserError("data is not set; write data=<folder of images>, or learner=FILE.py:NAME")
    config = replace(
        config, data=data, task=None, learner=None, groups=None, range=None, channels=None
    )
    _require_values(config)
    config, space = _with_space(_with_start_of_task(config))
    _require_teaching(config, space)
    config = with_images_of_network(config, space)
    config = with_live_latency(config, takes_addresses=True)
    if config.precision is BoardPrecision.int8:
        config = replace(config, export=True)  # which tells the accuracy of the int8 files
    config = with_precision(config)
    _require_known(config, space)
    images = _opened(config, space)
    space = rehearsed(config, space, images)
    rule = _rule(config, space, images)
    oracle = _oracle(config, limit_ms, space, images.task)
    if share is not None:
        limit_ms = limit_of_share(share, config, space, oracle)
        composed.T = f"{limit_ms:.4g}ms"  # a fit that is resumed has the same
        limit_ms = milliseconds(composed.T)
    space = searched_part(space, oracle)
    problem = SearchProblem(
        space,
        images.task,
        rule.of(images, space),
        oracle,
        limit_ms,
        further_limits(config, space, images.task),
        config.confidence,
    )
    require_confidence(problem)
    smaller = tuple(_limit_set(each, config, space, images.task) for each in sets[1:])
    return FitExperiment(config, problem, images, rule, _texts(config, limit_ms), smaller)


def _set_of_share(composed: DictConfig) -> dict[str, str]:
    """The limit that is a share of the time of `network=`.

    Raises:
      UserError: if several networks are asked for.
    """
    has_lists = any(isinstance(composed[name], ListConfig) for name in ("RAM", "flash"))
    if has_lists or composed.networks_handed != 1:
        raise UserError(
            f"T={composed.T} is for one network; of several name the times, as in T=[2ms,4ms]"
        )
    return {"T": str(composed.T)}


def _limit_set(
    texts: Mapping[str, str], config: FitConfig, space: SearchSpace, task: Task
) -> LimitSet:
    """The limits of a further network; those that have no list are the same."""
    named = replace(config, RAM=texts.get("RAM"), flash=texts.get("flash"))
    return LimitSet(milliseconds(texts["T"]), further_limits(named, space, task), texts)


def _texts(config: FitConfig, limit_ms: float) -> dict[str, str]:
    """The largest limits as they are written in settings."""
    memories = {"RAM": config.RAM, "flash": config.flash}
    named = {name: str(text) for name, text in memories.items() if text is not None}
    return {"T": f"{limit_ms:g}ms", **named}


def space_of_network(network: object, settings: Mapping[str, Any]) -> SearchSpace:
    """The sub-networks of a trained module, by the settings `side`, `input`, `learner` and `multiple`.

    Raises:
      UserError: if it is no module, or cannot be analysed.
    """
    from torch import nn  # noqa: PLC0415 - a module needs it

    from nas.fit.starts.elastic.loading import elastic_space  # noqa: PLC0415 - loaded when needed
    from nas.fit.starts.elastic.space import MULTIPLE  # noqa: PLC0415 - loaded when needed

    if not isinstance(network, nn.Module):
        raise UserError(f"network={network!r:.200} is no torch.nn.Module")
    multiple = settings.get("multiple") or MULTIPLE
    side, given, learner = (settings.get(name) for name in ("side", "input", "learner"))
    shape = None if given is None else shape_of(str(given), side)
    if given is None and side is None and learner is not None and not isinstance(learner, str):
        task = LearnerData.checked(loaders_alone(learner) or learner).task
        side, shape = task.image_side, task.shape or None
    return elastic_space(network, side=side, shape=shape, multiple=multiple)


def _require_values(config: FitConfig) -> None:
    """Refuse values out of their range; UserError names the first."""
    least = {
        "networks": (config.networks, 6),
        "multiple": (config.multiple, 1),
        "epochs": (config.epochs, 1),
    }
    require_values(config, least)
    require_hours(config.hours)
    if config.executor is Workers.ray and config.workers is None:
        raise UserError("executor=ray: set workers=, the number of trainings at once")
    if config.executor is Workers.threads and (config.workers or 1) > 1:
        raise UserError(
            f"executor=threads trains one network at a time; with workers={config.workers}, take "
            f"executor=processes"
        )


def _with_start_of_task(config: FitConfig) -> FitConfig:
    """Begin with the task's network, or that of timm with its head, for as many classes as the data have.

    Raises:
      UserError: if the data cannot be opened.
    """
    task = str(config.data).partition(":")[0]
    start = STARTS.get(task)
    if start is None or config.space not in {FROM_SCRATCH, ELASTIC}:
        return config
    side, network = config.side or _TASK_SIDE, config.network or start
    if network == start or network.startswith(_HEADS[task]):
        network = f"{network}/{open_data(str(config.data), side=side).task.num_classes}"
    return replace(config, side=side, network=network)


def _require_teaching(config: FitConfig, space: SearchSpace) -> None:
    """Refuse photos and teachers that teach nothing.

    Raises:
      UserError: if a fit has no use for them, or they are not there.
    """
    is_named = config.teacher not in {"auto", "none"}
    if config.unlabelled is None:
        if is_named:
            raise UserError(
                f"teacher={config.teacher} needs photos to teach; add unlabelled=FOLDER"
            )
        return
    if not isinstance(space, HasWeights):
        raise UserError(
            "unlabelled= is for fits of pretrained networks: leave it out, or take space=pretrained with weights from "
            "the internet or weights=FOLDER"
        )
    if config.teacher == "none":
        raise UserError("unlabelled= needs a teacher; leave teacher=none out")
    from nas.fit.data.unlabelled import UnlabelledPhotos  # noqa: PLC0415 - few fits have such photos
    from nas.fit.starts.pretrained.space import teacher_space  # noqa: PLC0415 - loaded when needed

    UnlabelledPhotos(Path(config.unlabelled).expanduser())
    if is_named:
        teacher_space(config.teacher, config.weights)


def _with_space(config: FitConfig) -> tuple[FitConfig, SearchSpace]:
    """The search space, and the settings with its full name.

    Raises:
      UserError: if there is none, or it needs what other settings lack.
    """
    config = replace(config, space=_space_name(config))
    trust(config.space)
    try:
        space = space_named(config.space)
    except UncuttableFileError as error:
        _tell_of_file(error.path, config)
        raise
    # a space that is an object has its own
    if config.multiple not in {None, getattr(space, "multiple", None)}:
        raise UserError(f"multiple={config.multiple} is for network=")
    if isinstance(space, HasWeights):
        if is_task(config.data):
            task = str(config.data).partition(":")[0]
            raise UserError(
                f"{task}: space={config.space} is for classification; begin with a trained network by "
                f"network=, or choose space={FROM_SCRATCH} or one of your own"
            )
        if config.side is not None:
            raise UserError(f"side={config.side}: with space={config.space}, the fit chooses it")
        if config.space == PRETRAINED and not _has_weights():
            raise UserError(f"space={PRETRAINED}: {no_weights()}")
    return config, space


def _tell_of_file(path: Path, config: FitConfig) -> None:
    """Say what a file that cannot be cut takes and what int8 makes of it."""
    from nas.fit.uncut_file import facts_of  # noqa: PLC0415 - imports runtimes

    for line in facts_of(path, config, partial(scaling_of_network, config)):
        say(PlainConsole(), line)


def _space_name(config: FitConfig) -> str:
    """Name of the space with what it is made of: `network=`, or `pool=` and `weights=`.

    Raises:
      UserError: if two settings make two spaces.
    """
    weights = config.weights
    if config.network is not None:
        if config.space not in {FROM_SCRATCH, ELASTIC}:
            raise UserError(f"network= is for space={ELASTIC}, and space={config.space} was named")
        side = size_text(config)
        multiple = "" if config.multiple is None else f",{config.multiple}"
        paths = absolute(config.network), absolute(weights or "")
        if "," in "".join(paths):
            raise UserError(f"{' '.join(paths)}: no path of network= and weights= may have a comma")
        return f"{ELASTIC}:{','.join(paths)},{side}{multiple}"
    if weights is None and config.pool is None:
        return config.space
    if config.space == PRETRAINED:
        from nas.fit.starts.pretrained.pool import pool_text  # noqa: PLC0415 - imports timm

        return f"{PRETRAINED}:{pool_text(config.pool, weights)}"
    if weights is None or not hasattr(space_named(config.space), "with_argument"):
        raise UserError(f"space={config.space} has no weights; leave out pool= and weights=")
    return f"{config.space}:{Path(weights).expanduser().absolute()},"


def _opened(config: FitConfig, space: SearchSpace) -> TrainingData:
    """What networks are trained on.

    Raises:
      UserError: if it cannot be opened, or a setting is for classification alone.
    """
    # unknown augmentation is refused before files are read
    with_augmentation(usual_recipe(space.name), config.augment, config.data)
    side = _timed_side(space) if config.side is None else config.side
    if not is_task(config.data):
        return open_data(str(config.data), side=side)
    task = str(config.data).partition(":")[0]
    if config.precision is BoardPrecision.int8:
        raise UserError(f"{task}: precision=int8 is judged for classification only; leave it out")
    return open_data(str(config.data), side=config.side if task == "learner" else side)


def _timed_side(space: SearchSpace) -> int:
    """Pixels of the images that a space's latencies are known for."""
    return space.tasks[space.default_task].image_side


def _require_known(config: FitConfig, space: SearchSpace) -> None:
    """Refuse before the data are read what no data can change: a start, a recipe, a limit or a device.

    Raises:
      UserError: if one is not known.
    """
    _start(config, space)
    if config.recipe != "auto":
        with_augmentation(config.recipe, config.augment, config.data)
    task = space.tasks[space.default_task]
    further_limits(config, space, task)
    if not config.latency.is_live:
        _oracle(config, 0.0, space, task)


def _start(config: FitConfig, space: SearchSpace) -> StartFrom:
    """What the networks begin with.

    Raises:
      UserError: if the space has no such start.
    """
    starts = [StartFrom.scratch]
    if isinstance(space, HasWeights):
        starts = [StartFrom.pretrained]
    elif isinstance(space, Inherits):
        starts = [StartFrom.network, StartFrom.scratch]
    start = starts[0] if config.start is StartFrom.auto else config.start
    if start not in starts:
        possible = " or ".join(f"start={each.value}" for each in starts)
        raise UserError(f"start={start.value} is not for space={config.space}; take {possible}")
    return start


def _rule(config: FitConfig, space: SearchSpace, images: TrainingData) -> OwnImagesConfig:
    """How networks are ranked, by what they start from, with the recipe of the trainings.

    Raises:
      UserError: if the space has no such start, or there is no such recipe.
    """
    start = _start(config, space)
    # a network of the package has a new head, one of the user's own is tuned
    has_new_head = config.weights is None and not is_of_user(config)
    from nas.fit.starts.fine_tuning.tuning import usual_fine_tuning  # noqa: PLC0415 - imports torch

    rule, usual = {
        StartFrom.pretrained: (FineTuningConfig, usual_fine_tuning(len(images.train))),
        StartFrom.network: (InheritedConfig, "scenes" if has_new_head else "fine_tuning"),
        StartFrom.scratch: (StagedConfig, usual_recipe(space.name)),
    }[start]
    recipe = usual if config.recipe == "auto" else config.recipe
    augment = config.augment if isinstance(images, ImageSet) else "none"
    return rule(with_augmentation(recipe, augment, config.data))


def _oracle(config: FitConfig, limit_ms: float, space: SearchSpace, task: Task) -> LatencyOracle:
    """The latency source; tables and models are for images of the side that was timed.

    Raises:
      UserError: if it cannot answer for this device, or for images of this side.
    """
    timed = _timed_side(space)
    is_any = config.latency.is_live or config.latency.any_side
    if task.image_side != timed and not is_any:
        raise UserError(
            f"side={task.image_side}: latencies of device={config.device} are known for images of "
            f"{timed} pixels; leave side out, or measure live with latency=probe"
        )
    try:
        return oracle_of(config, limit_ms, space, task)
    except UserError as error:
        if not isinstance(space, HasWeights) or config.latency.is_live:
            raise
        device = addresses(config.device)
        is_timed = find(space_named(default_space()), device) is not None
        other = f"; space={default_space()} without weights= has times of it" if is_timed else ""
        raise UserError(
            f"no latency of pretrained networks is known or predicted on device={device}: time them on the "
            f"board, device=ssh://<board>, or on this machine, device=here{other}"
        ) from error
