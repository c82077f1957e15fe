"""The network that is to be trained, and its images."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any, final

from jaxtyping import Int64
from numpy import ndarray

from edgenas_core.files.safe_yaml import load_settings
from edgenas_core.types.errors import UserError
from nas.accuracy.base import HasWeights
from nas.fit.data.image_set import ImageSet
from nas.fit.learners.data import TrainingData
from nas.fit.learners.opened import absolute_text, data_text, is_task, open_data
from nas.fit.starts.fine_tuning.tuning import usual_fine_tuning
from nas.fit.training.recipe import usual_recipe, with_augmentation
from nas.fit.training.trained_folder import trained_folder
from nas.report.answer import Status
from nas.report.run_folder import RunFolder
from nas.spaces.base import SearchSpace, architecture_named
from nas.spaces.registry import space_named
from nas.spaces.trusted_code import trust
from nas.train.config import TrainConfig

_KINDS = {"side": (int, NoneType)} | dict.fromkeys(
    ("data", "task", "learner", "augment"), (str, NoneType)
)
"""Types of the stored settings that a training takes over."""


@final
@dataclass(frozen=True)
class TrainSubject:
    """An architecture, its images, and the run that its trained network belongs to."""

    space: SearchSpace
    architecture: Int64[ndarray, "D"]
    images: TrainingData
    named: str  # the images, as `open_data` takes them
    run: Path  # folder
    augment: str = "auto"  # of the search

    @property
    def arch(self) -> str:
        """The architecture as text."""
        return self.space.text(self.architecture)

    @property
    def recipe(self) -> str:
        """Name of the recipe that is taken if none is named."""
        name = usual_recipe(self.space.name)
        if isinstance(self.space, HasWeights) and not self.space.is_new(self.architecture):
            name = usual_fine_tuning(len(self.images.train))
        augment = self.augment if isinstance(self.images, ImageSet) else "none"
        return with_augmentation(name, augment, self.named)

    @property
    def folder(self) -> Path:
        """Folder of the trained network."""
        return trained_folder(self.run, self.arch)

    @property
    def data(self) -> str:
        """The images, as `open_data` takes them from any folder."""
        return absolute_text(self.named)


def subject_of(config: TrainConfig) -> TrainSubject:
    """Find the network and open its images.

    Raises:
      UserError: if the run has no such network or no images, or they cannot be opened.
    """
    trust(config.space, config.network)
    own_data = (config.data, config.task, config.learner)
    if config.run is None:
        space, named = space_named(config.space), str(data_text(*own_data))
        architecture = architecture_named(space, str(config.arch))
        images = _images_of(space, architecture, named, config.side)
        return TrainSubject(
            space, architecture, images, named, Path(config.out) / f"train-{images.name}"
        )
    run = Path(config.run).expanduser()
    folder = RunFolder(run)
    summary = folder.finished_summary()
    settings, sources = _begun(folder.config)
    space = space_named(summary.settings.space)
    if config.arch is not None:
        architecture = architecture_named(space, config.arch)
    elif summary.best is not None:
        architecture = space.parse(summary.best.arch)
    else:
        raise UserError(f"run={run}: {Status.none.value}; choose a network with arch=")
    named_before = (settings.get(name) for name in ("data", "task", "learner"))
    stored = data_text(*named_before, is_trusted=False)
    chosen = data_text(*own_data, stored=stored)
    data, side = chosen or stored, config.side or settings.get("side")
    if isinstance(space, HasWeights):  # the search knew its images by those of this side
        side = space.tasks[space.default_task].image_side
    if data is None:
        raise UserError(f"run={run} searched on a table, without images; choose them with data=")
    images = open_data(data, side=None if data.startswith("learner:") else side)
    is_same = chosen in {None, stored} and config.side in {None, settings.get("side")}
    if is_same and sources.get("data") != images.digest:
        raise UserError(
            f"run={run} did not search on these images of {data}: they were changed, or an earlier "
            f"version split them otherwise; set data={data} to train on them all the same"
        )
    if isinstance(space, HasWeights):
        is_winner = summary.best is not None and summary.best.arch == space.text(architecture)
        if is_winner and summary.start and space.origin(architecture) not in summary.start:
            raise UserError(
                f"run={run} began with other weights: {summary.start}; here they are of "
                f"{space.origin(architecture)}"
            )
        images = _images_of(space, architecture, data, config.side)
    augment = settings.get("augment") or "auto"
    return TrainSubject(space, architecture, images, data, run, augment)


def _images_of(
    space: SearchSpace, architecture: Int64[ndarray, "D"], data: str, side: int | None
) -> TrainingData:
    """The images as the network takes them; a pretrained one has a side and a normalisation."""
    if not isinstance(space, HasWeights):
        return open_data(data, side=side)
    if is_task(data):
        raise UserError(
            f"space={space.name} is for classification, not for {data.partition(':')[0]}"
        )
    if side is not None:
        raise UserError(f"side={side}: a row of space={space.name} names its own, leave it out")
    from nas.fit.starts.fine_tuning.trial import PretrainedImages  # noqa: PLC0415 - imports torch

    return PretrainedImages(space, data)(architecture)


def _begun(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings and the sources of a search, of its `config.yaml`."""
    stored = load_settings(path)
    settings, sources = stored.get("values"), stored.get("sources")
    if not (isinstance(settings, dict) and isinstance(sources, dict)) or not all(
        isinstance(settings.get(name), kind) for name, kind in _KINDS.items()
    ):
        raise UserError(f"{path} is not the configuration of a search")
    return settings, sources
