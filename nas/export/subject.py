"""The network that is exported, with its weights, its data and its numbers in a search."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

from jaxtyping import Int64
from numpy import ndarray

from edgenas_core.types.architectures import Enumerable
from edgenas_core.types.errors import UserError
from edgenas_core.types.task import Task
from edgenas_core.types.units import epochs_text, milliseconds
from nas.export.config import ExportConfig, ExportPrecision, Precisions
from nas.export.searched import Searched, SearchedNetwork, find, plain
from nas.fit.data.image_set import ImageSet
from nas.fit.data.open import SPLIT_SEED
from nas.fit.learners.data import LearnerData, TrainingData
from nas.fit.learners.opened import data_text, open_data
from nas.fit.training.trained_folder import (
    RECORD,
    WEIGHTS,
    Training,
    TrainingState,
    read_training,
    trained_folder,
)
from nas.report.run_folder import RunFolder
from nas.spaces.base import SearchSpace, architecture_named, task_named
from nas.spaces.registry import space_named
from nas.spaces.trusted_code import trust


@final
@dataclass(frozen=True)
class ExportSubject:
    """A network to export; without `weights` it is untrained."""

    space: SearchSpace
    architecture: Int64[ndarray, "D"]
    task: Task
    searched: Searched | None = None  # where a search found it
    weights: Path | None = None  # safetensors
    training: Training | None = None  # where ours trained it
    images: TrainingData | None = None

    @property
    def arch(self) -> str:
        """The architecture as text."""
        return self.space.text(self.architecture)

    @property
    def index(self) -> int | None:
        """Number of the architecture; None if the space has no numbers."""
        if not isinstance(self.space, Enumerable):
            return None
        return int(self.space.numbers(self.architecture))

    @property
    def side(self) -> int:
        """Side in pixels of the images that the network takes."""
        from nas.fit.training.network import own_side  # noqa: PLC0415 - imports torch

        return own_side(self.space, self.architecture, self.task)

    @property
    def metric(self) -> str:
        """Name of the metric that the network is evaluated by."""
        return "accuracy" if self.images is None else self.images.metric

    @property
    def is_labelled(self) -> bool:
        """Whether its data are labelled images."""
        return isinstance(self.images, ImageSet)

    @property
    def draws_answers(self) -> bool:
        """Whether `infer.py` draws masks or boxes."""
        if not isinstance(self.images, LearnerData):
            return False
        from nas.fit.learners.detection import Detection  # noqa: PLC0415 - imports torch
        from nas.fit.learners.segmentation import Segmentation  # noqa: PLC0415 - loaded when needed

        return isinstance(self.images.learner, Segmentation | Detection)

    @property
    def title(self) -> str:
        """Space, and number where there is one."""
        return (
            self.space.name.partition(":")[0]
            if self.index is None
            else f"{self.space.name} {self.index}"
        )

    def precisions(self, config: ExportConfig) -> tuple[ExportPrecision, ...]:
        """Precision of each file to write, fp32 first; int8 needs images to be calibrated on."""
        trained = Precisions.fp16 if self.images is None else Precisions.all
        default = trained if self.is_trained else Precisions.fp32
        precisions: tuple[ExportPrecision, ...] = (config.precision or default).value
        return precisions

    @property
    def weights_text(self) -> str:
        """Sentence on the origin of the weights."""
        if self.weights is None:
            return (
                "UNTRAINED: the weights are torch's initialisation, with statistics of noise in the batch "
                "normalisations; train before you use the outputs"
            )
        if self.training is None:
            return f"The weights were trained elsewhere and read from {plain(str(self.weights))}"
        recipe = self.training.recipe.get("name", "unnamed")
        start = self.training.recipe.get("start")
        return (
            f"Trained on {plain(self.training.data_title)}: {epochs_text(self.training.epochs)} of recipe "
            f"{plain(recipe)}, seed {self.training.seed}{'' if start is None else f'; {plain(start)}'}"
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings about the weights, a sentence each."""
        if self.weights is None:
            return ()
        notes = []
        if self.training is None and self.images is not None:
            notes.append("the weights were trained elsewhere, perhaps on these test images too")
        if self.images is None:
            notes.append("the accuracy is unknown: name the images with data=")
        if self.training is not None and self.training.state == TrainingState.interrupted.value:
            notes.append(
                "the time for the training (hours=) was over before the last epoch of its recipe"
            )
        return tuple(notes)

    @property
    def is_trained(self) -> bool:
        """Whether it has weights beside its random initialisation."""
        return self.weights is not None


def subject_of(config: ExportConfig) -> ExportSubject:
    """The network that the settings name.

    Raises:
      UserError: if there is no such network, its files are corrupt, or two settings disagree.
    """
    trust(config.space, config.network)
    folder = _training_folder(config)
    limit_ms = None if config.T is None else milliseconds(config.T)
    if limit_ms is not None and (folder is not None or config.run is None):
        raise UserError(f"T={config.T} chooses a network of a search; set run= to its folder")
    if folder is not None:
        return _of_training(folder, config)
    if config.run is None:
        return _of_architecture(config)
    run = Path(config.run).expanduser()
    network = find(run, config.which, config.arch, limit_ms)
    folder = trained_folder(run, network.arch)
    if config.weights is None and (folder / RECORD).is_file():
        return _of_training(folder, config, network)
    data, side, seed = _data(config), config.side, SPLIT_SEED
    others = sorted(run.glob(f"trained/*/{RECORD}"))
    if data is None and others:  # a search on images: those that it trained others on
        training = read_training(others[0].parent)
        data, side, seed = training.data, side or training.side, training.data_seed
    images = None if data is None else open_data(data, side=side, seed=seed)
    task = task_named(network.space, network.dataset) if images is None else images.task
    weights = _weights_file(config)
    return ExportSubject(
        network.space, network.architecture, task, network.searched, weights, images=images
    )


def _training_folder(config: ExportConfig) -> Path | None:
    """The folder that `weights` or `run` names, if a trained network is in it."""
    for name in filter(None, (config.weights, config.run)):
        folder = Path(name).expanduser()
        if (folder / RECORD).is_file():
            return folder
        inside = sorted(file.parent for file in folder.glob(f"trained/*/{RECORD}"))
        if inside and not RunFolder(folder).config.is_file():  # by nas.train without a run
            if len(inside) > 1:
                raise UserError(
                    f"{name} holds {len(inside)} trained networks; name one: weights={inside[-1]}"
                )
            return inside[0]
    if config.weights is not None and Path(config.weights).expanduser().is_dir():
        raise UserError(
            f"weights={config.weights} is not the folder of a trained network: it has no {RECORD}"
        )
    return None


def _of_training(
    folder: Path, config: ExportConfig, network: SearchedNetwork | None = None
) -> ExportSubject:
    training = read_training(folder)
    space = space_named(training.space)
    architecture = space.parse(training.arch)
    text = space.text(architecture)
    if config.arch is not None and space.text(architecture_named(space, config.arch)) != text:
        raise UserError(f"arch={config.arch} is not what was trained in {folder}: {text}")
    if network is None and config.which is not None:
        raise UserError(f"which={config.which.value} names a network of a search; leave it out")
    if network is None:
        network = _in_its_run(folder, text, config)
    data = _data(config, training.data) or training.data
    side = training.side if config.side is None else config.side
    images = open_data(data, side=side, seed=training.data_seed)
    if images.digest != training.data_digest:
        raise UserError(
            f"data={data} are not the images that {folder} was trained on, so that its test images may "
            f"be among them; name those images with data="
        )
    if isinstance(images, ImageSet):  # those of the weights it began with
        images = replace(images, mean=training.mean, sd=training.sd, unit=training.unit)
    searched = None if network is None else network.searched
    weights = folder / WEIGHTS
    return ExportSubject(space, architecture, images.task, searched, weights, training, images)


def _in_its_run(folder: Path, text: str, config: ExportConfig) -> SearchedNetwork | None:
    """Numbers of the network in its run: the run that `run` names, or the one that the folder lies in."""
    if config.run is not None and config.weights is not None:
        return find(Path(config.run).expanduser(), None, text)
    run = folder.resolve().parent.parent
    is_inside = trained_folder(run, text) == folder.resolve()
    return find(run, None, text) if is_inside and (run / "summary.json").is_file() else None


def _of_architecture(config: ExportConfig) -> ExportSubject:
    if config.arch is None:
        raise UserError(
            "nothing is named: set run=<folder of a finished run>, weights=<folder of a trained "
            "network>, or arch=<an architecture> and its space="
        )
    if config.which is not None:
        raise UserError(f"which={config.which.value} names a network of a search; set run=")
    space = space_named(config.space)
    architecture = architecture_named(space, config.arch)
    data = _data(config)
    images = None if data is None else open_data(data, side=config.side)
    task = task_named(space, config.dataset) if images is None else images.task
    return ExportSubject(space, architecture, task, weights=_weights_file(config), images=images)


def _data(config: ExportConfig, stored: str | None = None) -> str | None:
    return data_text(config.data, config.task, config.learner, stored=stored)


def _weights_file(config: ExportConfig) -> Path | None:
    if config.weights is None:
        return None
    file = Path(config.weights).expanduser()
    if not file.is_file():
        raise UserError(f"weights={config.weights} is not there")
    return file
