"""Settings of a fit, and the objects that are made of them; conf/fit.yaml holds further defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias, final

import nas.runs.strategy
from nas.accuracy.base import HasWeights
from nas.config.run_config import Experiment, RunConfig
from nas.fit.learners.data import TrainingData
from nas.fit.own_images import OwnImagesConfig
from nas.trials.executor import Workers


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

    data: str | None = None  # a folder, a .parquet file, or digits
    task: str | None = None  # None: classification
    learner: str | None = None  # FILE.py:NAME of a task of one's own
    start: StartFrom = StartFrom.auto
    recipe: str = "auto"  # of every training; auto: that of the start
    weights: str | None = None  # folder of pretrained networks; file of network=
    pool: Any = None  # pretrained networks to choose from: names of timm, folders, functions
    network: str | None = None  # FILE.py:FUNCTION of a trained network to make smaller
    mean: Any = None  # of the images that network= was trained on, fractions of 255
    std: Any = None  # likewise, standard deviation
    multiple: int | None = None  # of channels, where layers of network= are cut; None: 8
    networks: int = 60  # that a live device times before a model predicts others
    side: int | None = None  # pixels of the images
    augment: str = "auto"  # none, or flip, crop, rand_augment with commas
    hours: float = 1.0  # of the whole fit, the training of the winner included
    executor: Workers = Workers.processes  # where networks are trained


@final
@dataclass(frozen=True)
class FitExperiment(Experiment):
    """The objects of one fit."""

    config: FitConfig
    images: TrainingData
    rule: OwnImagesConfig  # how networks are ranked

    @property
    def data(self) -> str | None:
        """What networks are trained on, as one text."""
        return self.config.data

    @property
    def digest(self) -> str:
        """Digest of what networks are trained on."""
        return self.images.digest

    @property
    def derived_settings(self) -> Mapping[str, Any]:
        """Side of the images, where neither a network nor its weights have one."""
        knows_side = self.config.network is not None or isinstance(self.problem.space, HasWeights)
        return {} if knows_side else {"side": self.images.side}


Begun: TypeAlias = nas.runs.strategy.Begun[FitExperiment]
"""A fit in its folder."""
