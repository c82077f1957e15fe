"""Settings of a fit, and the objects that are made of them; conf/fit.yaml holds further defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias, final

import nas.runs.strategy
from edgenas_core.command.settings import setting
from nas.accuracy.base import HasWeights
from nas.config.run_config import Experiment, RunConfig
from nas.fit.learners.data import TrainingData
from nas.fit.own_images import OwnImagesConfig
from nas.trials.executor import Workers
from nas.trials.limits import LimitSet


class StartFrom(Enum):
    """What the networks of a fit begin with.

    `auto` is `network` where a trained network is named, `pretrained` where the space has weights, else
    `scratch`.
    """

    auto = "auto"
    pretrained = "pretrained"  # networks with published weights
    scratch = "scratch"  # random initialisation
    network = "network"  # parts of one trained network


@final
@dataclass
class FitConfig(RunConfig):
    """Everything that decides a fit on the user's data."""

    data: str | None = setting(
        None,
        "A folder of class folders, a .csv, .parquet or .tar file, or digits; docs/reference/images.md.",
        unit="path",
        heading="On what (name=value)",
    )
    task: str | None = setting(
        None,
        "What is learnt from data=: classification, regression, multilabel, embedding, segmentation, detection, or "
        "agreement with network=.",
        unset="classification",
    )
    learner: str | None = setting(
        None,
        "FILE.py:NAME of a task of your own, in place of data=; docs/how-to/train-for-your-own-task.md.",
    )
    side: int | None = setting(
        None,
        "Height and width of the images.",
        unit="pixels",
        unset="32, which latencies are known for",
    )
    input: str | None = setting(
        None,
        "Shape of the input of network=, channels first, if it is not a square image: 1x40x101.",
        unset="that of the learner or the file",
    )
    groups: str | None = setting(
        None,
        "Which images a drawn split keeps together: a folder level counted from 1, a pattern of paths, a column, none.",
        unset="nearly equal ones",
    )
    range: str | None = setting(
        None,
        "Pixel values LOW:HIGH of images of more than 8 bits that become black and white.",
        unset="those of the set",
    )
    channels: str | None = setting(
        None,
        "Order of the channels that network= expects: rgb, bgr or grey.",
        unset="grey for a network of one channel, else rgb",
    )
    augment: str = setting(
        "auto",
        "Augmentation: none, or a list of flip, crop and rand_augment; auto: that of the recipe, without flip for digits.",
    )
    start: StartFrom = setting(
        StartFrom.auto,
        "Initial weights: published weights, random initialisation, or parts of one trained network; auto: depends on "
        "the space.",
        heading="From which networks",
    )
    pool: Any = setting(
        None,
        "Pretrained networks to choose from: [names of timm, torchvision/NAME, folders, my_nets.py:function].",
        unset="those of space=",
    )
    weights: str | None = setting(
        None,
        "Folder of pretrained networks, <timm's name>.safetensors; of network=, its file; of space=mobilenet_v3 "
        "(edgenas[mobilenet-v3]) the published file.",
        unit="path",
        unset="timm's hub, with internet",
    )
    network: str | None = setting(
        None,
        "my_net.py:function, which builds a trained network to make smaller, or model.onnx; "
        "docs/how-to/make-your-network-fit.md.",
    )
    metric: str | None = setting(
        None,
        "How agreement with network= is measured, if data= has no labels: classes, boxes (of a map of objects) or error.",
        unset="classes if network= answers with classes, else error",
    )
    mean: Any = setting(
        None,
        "Mean of the images on which network= was trained, as fractions of 255: 0.5, or one for each channel.",
        unset="the usual one with which it is most accurate on validation images",
    )
    std: Any = setting(
        None, "Standard deviation of these images, in the same unit.", unset="chosen as mean= is"
    )
    multiple: int | None = setting(
        None, "Channel counts of network= are rounded to a multiple of this.", unset="8"
    )
    networks: int = setting(
        60, "Number of networks that are timed on a live device before a model predicts the others."
    )
    unlabelled: str | None = setting(
        None,
        "Folder of further photos without classes, also in folders below it; the fit's best networks teach the winner on them.",
        unit="path",
    )
    teacher: str = setting(
        "auto",
        "Networks that teach the winner. auto: with unlabelled=, those that the fit has tuned, and with network=, that network. "
        "none: no network. Otherwise the name or file of a pretrained network, of any latency.",
    )
    networks_handed: int = setting(
        1,
        "Number of networks that the fit returns; 3: for T, its half and its quarter. T=[2ms,4ms,8ms] names the limits instead.",
    )
    hours: float = setting(
        1.0,
        "Time of the whole fit in hours, with the training of the winner.",
        heading="How to train",
    )
    recipe: str = setting(
        "auto",
        "Recipe of every training: fine_tuning, adamw, from_scratch, scenes, modern, nas_bench_201; auto: by the "
        "start.",
    )
    executor: Workers = setting(
        Workers.processes,
        "How trainings run; ray: on several machines; docs/how-to/train-on-several-machines.md.",
    )


@final
@dataclass(frozen=True)
class FitExperiment(Experiment):
    """The objects of one fit."""

    config: FitConfig
    images: TrainingData
    rule: OwnImagesConfig  # how networks are ranked
    texts: Mapping[str, str] = field(default_factory=dict)  # of the limits, T, RAM and flash
    smaller: tuple[LimitSet, ...] = ()  # further limits, the largest first, each with its network

    @property
    def data(self) -> str | None:
        """What networks are trained on, as one text."""
        return self.config.data

    @property
    def digest(self) -> str:
        """Digest of what networks are trained on."""
        return self.images.digest

    @property
    def limits_ms(self) -> tuple[float, ...]:
        """Every T of `T=[...]`, the largest first."""
        return (self.problem.limit_ms, *(limits.limit_ms for limits in self.smaller))

    @property
    def derived_settings(self) -> Mapping[str, Any]:
        """Side of the images, where neither a network nor its weights have one."""
        knows_side = self.config.network is not None or isinstance(self.problem.space, HasWeights)
        return {} if knows_side else {"side": self.images.side}


Begun: TypeAlias = nas.runs.strategy.Begun[FitExperiment]
"""A fit in its folder."""
