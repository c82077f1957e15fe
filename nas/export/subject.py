"""The network that is exported, its weights, and what is known of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import final

from jaxtyping import Int64
from numpy import ndarray

from common.types.architectures import Enumerable
from common.types.errors import UserError
from common.types.task import Task
from common.types.units import milliseconds
from nas.accuracy.images.image_set import ImageSet
from nas.accuracy.images.open import SPLIT_SEED, open_images
from nas.accuracy.training.trained_folder import (
    RECORD,
    WEIGHTS,
    State,
    Training,
    read_training,
    trained_folder,
)
from nas.export.config import ExportConfig
from nas.export.docstring import plain
from nas.export.precisions import Precision
from nas.export.searched import Searched, SearchedNetwork, find
from nas.report.run_folder import RunFolder
from nas.spaces.base import SearchSpace, architecture_named, task_named
from nas.spaces.registry import space_named


@final
@dataclass(frozen=True)
class Subject:
    """A network to export; without `weights` it is untrained."""

    space: SearchSpace
    architecture: Int64[ndarray, "D"]
    task: Task
    searched: Searched | None  # where a search found it
    weights: Path | None  # safetensors
    training: Training | None  # where ours trained it
    images: ImageSet | None

    @property
    def arch(self) -> str:
        """The architecture as text."""
        return self.space.text(self.architecture)

    @property
    def index(self) -> int | None:
        """Its number; None where the space has none."""
        if not isinstance(self.space, Enumerable):
            return None
        return int(self.space.numbers(self.architecture))

    @property
    def side(self) -> int:
        """Side in pixels of the images that the network takes."""
        from nas.accuracy.training.untrained import own_side  # noqa: PLC0415 - imports torch

        return own_side(self.space, self.architecture, self.task)

    @property
    def title(self) -> str:
        """Space, and number where there is one."""
        return self.space.name if self.index is None else f"{self.space.name} {self.index}"

    def precisions(self, config: ExportConfig) -> tuple[Precision, ...]:
        """Precision of each file to write, fp32 first."""
        return config.precisions(is_trained=self.is_trained, has_images=self.images is not None)

    @property
    def weights_text(self) -> str:
        """Where the weights come from, in a sentence."""
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
            f"Trained on {plain(self.training.data_title)}: {self.training.epochs} epochs of recipe "
            f"{plain(recipe)}, seed {self.training.seed}{'' if start is None else f'; {plain(start)}'}"
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings about the weights, a sentence each."""
        if self.weights is None:
            return ()
        found = []
        if self.training is None and self.images is not None:
            found.append("the weights were trained elsewhere, perhaps on these test images too")
        if self.images is None:
            found.append("the accuracy is unknown: name the images with data=")
        if self.training is not None and self.training.state == State.interrupted.value:
            found.append("the training was interrupted: its recipe had more epochs")
        return tuple(found)

    @property
    def is_trained(self) -> bool:
        """Whether it has weights other than those it is initialised with."""
        return self.weights is not None


def subject_of(config: ExportConfig) -> Subject:
    """The network that the settings name.

    Raises:
      UserError: if there is no such network, its files are corrupt, or two settings disagree.
    """
    folder = _training_folder(config)
    limit_ms = None if config.T is None else milliseconds(config.T)
    if limit_ms is not None and (folder is not None or config.run is None):
        raise UserError(f"T={config.T} chooses a network of a search; set run= to its folder")
    if folder is not None:
        return _of_training(folder, config)
    if config.run is None:
        return _of_architecture(config)
    run = _path(config.run)
    found = find(run, config.which, config.arch, limit_ms)
    folder = trained_folder(run, found.arch)
    if config.weights is None and (folder / RECORD).is_file():
        return _of_training(folder, config, found)
    return _of_run(run, found, config)


def _training_folder(config: ExportConfig) -> Path | None:
    """The folder that `weights` or `run` names, if a trained network is in it."""
    for name in filter(None, (config.weights, config.run)):
        if (_path(name) / RECORD).is_file():
            return _path(name)
        inside = sorted(file.parent for file in _path(name).glob(f"trained/*/{RECORD}"))
        if inside and not RunFolder(_path(name)).config.is_file():  # by nas.train without a run
            if len(inside) > 1:
                raise UserError(
                    f"{name} holds {len(inside)} trained networks; name one: weights={inside[-1]}"
                )
            return inside[0]
    if config.weights is not None and _path(config.weights).is_dir():
        raise UserError(
            f"weights={config.weights} is not the folder of a trained network: it has no {RECORD}"
        )
    return None


def _of_training(
    folder: Path, config: ExportConfig, found: SearchedNetwork | None = None
) -> Subject:
    training = read_training(folder)
    space = space_named(training.space)
    architecture = space.parse(training.arch)
    text = space.text(architecture)
    if config.arch is not None and space.text(architecture_named(space, config.arch)) != text:
        raise UserError(f"arch={config.arch} is not what was trained in {folder}: {text}")
    if found is None and config.which is not None:
        raise UserError(f"which={config.which.value} names a network of a search; leave it out")
    if found is None:
        found = _in_its_run(folder, text, config)
    images = _images(
        config.data or training.data,
        training.side if config.side is None else config.side,
        training.data_seed,
    )
    if images.digest != training.data_digest:
        raise UserError(
            f"data={config.data or training.data} are not the images that {folder} was trained on, so "
            f"that its test images may be among them; name those images with data="
        )
    return Subject(
        space,
        architecture,
        images.task,
        None if found is None else found.searched,
        folder / WEIGHTS,
        training,
        images,
    )


def _in_its_run(folder: Path, text: str, config: ExportConfig) -> SearchedNetwork | None:
    """What the run knows that the folder lies in, or that `run` names beside `weights`."""
    if config.run is not None and config.weights is not None:
        return find(_path(config.run), None, text)
    run = folder.resolve().parent.parent
    is_inside = trained_folder(run, text) == folder.resolve()
    return find(run, None, text) if is_inside and (run / "summary.json").is_file() else None


def _of_run(run: Path, found: SearchedNetwork, config: ExportConfig) -> Subject:
    """A network that the run did not train in full, or one with weights from elsewhere."""
    data, side, seed = config.data, config.side, SPLIT_SEED
    others = sorted(run.glob(f"trained/*/{RECORD}"))
    if data is None and others:  # a search on images: those that it trained others on
        training = read_training(others[0].parent)
        data, side, seed = training.data, side or training.side, training.data_seed
    images = None if data is None else _images(data, side, seed)
    task = task_named(found.space, found.dataset) if images is None else images.task
    weights = _weights_file(config)
    return Subject(found.space, found.architecture, task, found.searched, weights, None, images)


def _of_architecture(config: ExportConfig) -> Subject:
    if config.arch is None:
        raise UserError(
            "nothing is named: set run=<folder of a finished run>, weights=<folder of a trained "
            "network>, or arch=<an architecture> and its space="
        )
    if config.which is not None:
        raise UserError(f"which={config.which.value} names a network of a search; set run=")
    space = space_named(config.space)
    architecture = architecture_named(space, config.arch)
    images = None if config.data is None else _images(config.data, config.side, SPLIT_SEED)
    task = task_named(space, config.dataset) if images is None else images.task
    return Subject(space, architecture, task, None, _weights_file(config), None, images)


def _weights_file(config: ExportConfig) -> Path | None:
    if config.weights is None:
        return None
    file = _path(config.weights)
    if not file.is_file():
        raise UserError(f"weights={config.weights} is not there")
    return file


def _images(data: str, side: int | None, seed: int) -> ImageSet:
    return open_images(data, side=side, seed=seed)


def _path(text: str) -> Path:
    return Path(text).expanduser()
