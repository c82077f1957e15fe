"""The last stage: the winner's training, in what is left of the time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import final

from rich.console import Console

from nas.accuracy.images.image_set import ImageSet
from nas.accuracy.images.open import SPLIT_SEED
from nas.accuracy.training.evaluation import device_named
from nas.accuracy.training.recipe import recipe_named
from nas.accuracy.training.train_on import TrainOn
from nas.accuracy.training.trained_folder import Training, read_training, trained_folder
from nas.accuracy.training.trainer import seconds_an_epoch
from nas.config.build import Experiment
from nas.train.config import TrainConfig
from nas.train.job import CHECKPOINT, TrainingJob
from nas.train.subject import Subject
from runtime.shell.errors import UserError
from runtime.shell.typed_json import read_json

_PLANNED = 0.95
"""Share of the time that the epochs are planned for."""


@final
@dataclass(frozen=True)
class Winner:
    """The decision that a resumed search keeps."""

    arch: str
    recipe: str
    epochs: int
    disturbed: bool  # no candidate was timed again on an undisturbed board: it is not confirmed


def read_winner(path: Path) -> Winner:
    """The decision of a search that was interrupted after it.

    Raises:
      UserError: if the file is corrupt.
    """
    try:
        return read_json(path, Winner)
    except (OSError, ValueError) as error:
        raise UserError(f"{path} does not name a winner: {error}; remove it") from error


def train_winner(
    experiment: Experiment, images: ImageSet, run: Path, winner: Winner, console: Console
) -> Training:
    """Train in full, or go on with it; returns the record in the folder of the trained network.

    Raises:
      UserError: if the training diverges, or memory is too small.
      OSError: if a file cannot be written.
    """
    config, space = experiment.config, experiment.problem.space
    settings = TrainConfig(
        run=str(run),
        space=space.name,
        arch=winner.arch,
        data=config.data,
        side=config.side,
        recipe=winner.recipe,
        epochs=winner.epochs,
        hours=None,
        images=TrainOn.train,
        seed=config.seed,
        device="auto",
        runs=config.runs,
    )
    path = Path(str(config.data)).expanduser()
    subject = Subject(
        space,
        space.parse(winner.arch),
        str(path.absolute()) if path.exists() else str(config.data),
        SPLIT_SEED,
        images,
        trained_folder(run, winner.arch),
    )
    subject.folder.mkdir(parents=True, exist_ok=True)
    TrainingJob.of(settings, subject, device_named("auto"), console).run()
    return read_training(subject.folder)


def forget_checkpoint(run: Path, arch: str) -> None:
    """Remove the checkpoint of a winner that was trained; its weights stay.

    Raises:
      OSError: if it cannot be removed.
    """
    (trained_folder(run, arch) / CHECKPOINT).unlink(missing_ok=True)


def epochs_within(
    experiment: Experiment, images: ImageSet, arch: str, recipe: str, seconds: float
) -> int:
    """Epochs that fit, at most `epochs=`; at least one, however long it takes."""
    space = experiment.problem.space
    network = space.network(space.parse(arch), images.task)
    epoch_s = seconds_an_epoch(network, images, recipe_named(recipe), on=TrainOn.train)
    return max(1, min(int(_PLANNED * seconds / epoch_s), experiment.config.epochs))
