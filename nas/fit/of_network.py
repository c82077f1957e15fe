"""Settings of a fit that begins with the user's own network: its images, their scaling, what is learnt without labels."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from edgenas_core.types.errors import UserError
from edgenas_core.types.kind import Kind
from latency.base import LatencyOracle, UnmeasuredError
from nas.fit.config import FitConfig
from nas.fit.data.groups import DataOptions, Scaling
from nas.fit.data.image_set import Target
from nas.fit.learners.data import TrainingData
from nas.fit.learners.opened import (
    AGREEMENT,
    SCENES,
    agreement_text,
    is_task,
    is_without_labels,
    open_data,
)
from nas.spaces.base import SearchSpace

if TYPE_CHECKING:
    from nas.fit.starts.elastic.space import ElasticSpace


def with_images_of_network(config: FitConfig, space: SearchSpace) -> FitConfig:
    """The settings with the data as the network takes them: grey, scaled, with its answers for labels.

    Raises:
      UserError: if settings of a network of the user are named for another, or one of its images is not known.
    """
    from nas.fit.starts.elastic.space import ElasticSpace  # noqa: PLC0415 - imports torch

    if not isinstance(space, ElasticSpace) or not is_of_user(config):
        if config.mean is not None or config.std is not None:
            raise UserError(
                "mean= and std= are of the images of network=FILE.py:FUNCTION or model.onnx"
            )
        if is_task(config.data) and is_without_labels(str(config.data)):
            raise UserError(
                "the data have no labels; name the network whose answers are learnt: network=FILE.py:FUNCTION or "
                "model.onnx"
            )
        return config
    if config.mean is not None or config.std is not None:
        if str(config.data).startswith(("learner:", "embedding:")):
            raise UserError(
                "mean= and std= are of the images of data=; a learner scales its inputs itself"
            )
        space.pretrained_normalisation = scaling_of_network(config, space.channels)
    config = _with_channels(config, space)
    if is_without_labels(str(config.data)):
        return _with_teacher(config, space)
    if config.metric is not None:
        raise UserError(f"metric={config.metric} is of data without labels; leave it out")
    return config


def _with_channels(config: FitConfig, space: ElasticSpace) -> FitConfig:
    """Read images in grey for a network of one channel, and scenes with the scaling of the network."""
    task, mark, data = (
        str(config.data).partition(":") if is_task(config.data) else ("", "", str(config.data))
    )
    of_images = {"", AGREEMENT, *SCENES, *(each.value for each in Target)}
    if task not in of_images:
        return config
    options = DataOptions.of(data)
    is_grey = space.channels == 1 and options.channels == "rgb"
    scaling = space.pretrained_normalisation if task in SCENES else None
    data = DataOptions.joined(
        data, None, None, "grey" if is_grey else None, scaling, mirrors=options.mirrors
    )
    return replace(config, data=f"{task}{mark}{data}")


def _with_teacher(config: FitConfig, space: ElasticSpace) -> FitConfig:
    """The settings with the network as the teacher of data without labels.

    Raises:
      UserError: if nothing says how it takes the values of pixels.
    """
    from nas.fit.starts.elastic.rehearsal import SCALINGS  # noqa: PLC0415 - imports torch

    data, scaling = str(config.data), space.pretrained_normalisation
    if data.startswith("learner:"):
        scaling = None
    elif scaling is None:
        names = ", ".join(SCALINGS)
        raise UserError(
            f"images without labels do not tell how the network takes the values of pixels; add mean= and std=: "
            f"{names}; of others one number a channel"
        )
    text = agreement_text(data, config.space, scaling, config.metric)
    return replace(config, data=text, metric=None)


def rehearsed(config: FitConfig, space: SearchSpace, images: TrainingData) -> SearchSpace:
    """The space; one of the user's network once that was trained for a step, cut and exported, with its scaling.

    Raises:
      UserError: if its network cannot be trained on the data or exported.
    """
    from nas.fit.starts.elastic.rehearsal import choose_scaling, rehearse  # noqa: PLC0415 - imports torch
    from nas.fit.starts.elastic.space import ElasticSpace  # noqa: PLC0415 - loaded when needed

    if not isinstance(space, ElasticSpace) or not is_of_user(config):
        return space
    rehearse(space, images)
    scaling = choose_scaling(space, images)
    if scaling is not None:
        space.notes = (*space.notes, scaling)
    return space


def is_of_user(config: FitConfig) -> bool:
    """Whether the space has a network of the user: an object, a function or a file."""
    from nas.fit.starts.elastic.loading import is_of_user  # noqa: PLC0415 - imports torch

    return config.network is None or is_of_user(config.network)


def scaling_of_network(config: FitConfig, channels: int) -> Scaling | None:
    """Mean and standard deviation that `network=` was trained with, for each channel; None if the settings say none.

    Raises:
      UserError: if one is missing, not a number for each channel, or a standard deviation is not above 0.
    """
    if config.mean is None and config.std is None:
        return None
    parts = []
    for name, value in (("mean", config.mean), ("std", config.std)):
        numbers = value if isinstance(value, list) else [value]
        is_number = [isinstance(each, int | float) and math.isfinite(each) for each in numbers]
        if not all(is_number) or len(numbers) not in {1, channels}:
            raise UserError(
                f"{name}={value} is not one number, or one for each of {channels} channels, as in "
                f"mean=0.5 std=0.5 or mean=[0.485,0.456,0.406] std=[0.229,0.224,0.225]"
            )
        parts.append(tuple(float(each) for each in numbers) * (channels // len(numbers)))
    mean, std = parts
    if min(std) <= 0:
        raise UserError(f"std={config.std} must be above 0; pixels of 0 to 255 need std=0.00392")
    return mean, std


def share_of_network(limit: object) -> float | None:
    """The share of a time limit such as 50%; None of one with a unit of time.

    Raises:
      UserError: if it is not above 0.
    """
    text = str(limit).strip()
    if not text.endswith("%"):
        return None
    try:
        share = float(text[:-1]) / 100
    except ValueError:
        share = math.nan
    if not 0 < share < math.inf:
        raise UserError(f"T={limit} is no share of the time of network=, such as 50%")
    return share


def limit_of_share(
    share: float, config: FitConfig, space: SearchSpace, oracle: LatencyOracle
) -> float:
    """Milliseconds of a share of the time that the user's whole network takes on the device, which is timed now.

    Raises:
      UserError: if there is no network of the user, or the device cannot run it.
    """
    from nas.fit.starts.elastic.space import ElasticSpace  # noqa: PLC0415 - imports torch

    if not isinstance(space, ElasticSpace) or not is_of_user(config):
        raise UserError(
            f"T={100 * share:g}% is a share of the time of network=; name one, or T=17ms"
        )
    try:
        timed = oracle.answer(space.largest[None])
    except UnmeasuredError as error:
        raise UserError(
            f"T={100 * share:g}%: {space.origin} does not run on {oracle.device} as it is ({error}); set T in ms"
        ) from error
    whole_ms, limit_ms = float(timed.ms[0]), share * float(timed.ms[0])
    words = Kind(int(timed.kind[0])).words
    told = f"T is {100 * share:g} % of the {whole_ms:.3g} ms of {space.origin}, {words}: {limit_ms:.3g} ms"
    space.notes = (*space.notes, told)
    return limit_ms


def size_text(config: FitConfig) -> str:
    """What an input of the user's network measures: its side, or its shape, which a learner knows, too.

    Raises:
      UserError: if `input` is no shape, or contradicts `side`.
    """
    if config.input is not None:
        return "x".join(map(str, shape_of(config.input, config.side)))
    if config.side is not None or not str(config.data).startswith("learner:"):
        return "" if config.side is None else str(config.side)
    task = open_data(str(config.data)).task
    return "x".join(map(str, task.shape or (task.image_side,)))


def shape_of(text: str, side: int | None = None) -> tuple[int, ...]:
    """The shape that `input` names.

    Raises:
      UserError: if it is none, or contradicts `side`.
    """
    if not re.fullmatch(r"[1-9]\d{0,5}(x[1-9]\d{0,5})*", text):
        raise UserError(f"input={text} is no shape, channels first, such as 1x40x101")
    if side is not None:
        raise UserError(f"input={text} and side={side} name two sizes; leave one out")
    return tuple(map(int, text.split("x")))
