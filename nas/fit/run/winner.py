"""The last stage: the winner's training, in what is left of the time."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

from jaxtyping import Int64
from numpy import ndarray
from rich.console import Console

from nas.fit.config import FitExperiment
from nas.fit.learners.data import TrainingData
from nas.fit.training.checkpoint import seconds_done
from nas.fit.training.device import take_share
from nas.fit.training.evaluation import accuracy_of, device_named
from nas.fit.training.recipe import recipe_named
from nas.fit.training.train_on import TrainOn
from nas.fit.training.trained_folder import RECORD, Training, read_training, trained_folder
from nas.fit.training.trainer import TrainingOptions, seconds_an_epoch
from nas.train.config import TrainConfig
from nas.train.job import CHECKPOINT, Start, TrainingJob
from nas.train.subject import TrainSubject

MORE = 2
"""Multiple of the planned epochs that the schedule may be stretched to, where time is left."""

TRAINED_IMAGES = 600_000
"""Images that networks with random initialisation see until they are trained: few images take more epochs.

Of 1,199 photos, 3 blocks of stride 2 learn 66.4 % in 200 epochs, and 69.7 % in 500.
"""

_REPORTED_S = 3.0
"""Time for the report after the training."""


@final
@dataclass(frozen=True)
class Winner:
    """The decision that a resumed search keeps."""

    arch: str
    recipe: str
    epochs: int  # in all, as they were planned when the training began
    ranked_epochs: int  # of these, that it was trained for when it was ranked
    latency_ms: float  # on a live device, as it was timed again
    latency_kind: int  # disturbed: every candidate was timed again under load
    rate: float = 1.0  # learning rate, as a multiple of the recipe's
    after_s: float = 0.0  # from the beginning of the search to this decision


def train_winner(
    experiment: FitExperiment,
    images: TrainingData,
    run: Path,
    winner: Winner,
    console: Console,
    *,
    start: Start,
    most: int,
    ends_s: float,
) -> Training:
    """Train in full, or go on with it, for `most` epochs and until `ends_s` on the monotonic clock at most.

    Returns:
      The record of the trained network, which is in its folder.

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
        epochs=min(MORE * winner.epochs, max(most, winner.epochs)),
        images=TrainOn.train,
        seed=config.seed,
    )
    subject = TrainSubject(space, space.parse(winner.arch), images, str(config.data), run)
    subject.folder.mkdir(parents=True, exist_ok=True)
    ends_s -= _REPORTED_S
    device = device_named("auto")
    start = replace(start, planned=winner.epochs)
    return TrainingJob(settings, subject, device, console, start=start, ends_s=ends_s).run()


def epochs_of_new(images: TrainingData, default: int) -> int:
    """Epochs that train a network from random initialisation: as by default, more on few images."""
    return max(default, math.ceil(TRAINED_IMAGES / len(images.train)))


def spent_since(run: Path, winner: Winner) -> float:
    """Duration of the search so far, by the training that was decided on last."""
    checkpoint = trained_folder(run, winner.arch) / CHECKPOINT
    if checkpoint.is_file():
        return winner.after_s + seconds_done(checkpoint)
    training = read_if_trained(run, winner)
    return winner.after_s + (0.0 if training is None else training.seconds)


def read_if_trained(run: Path, winner: Winner | None) -> Training | None:
    """The training of a decision; None if it has not ended, or nothing was decided."""
    if winner is None:
        return None
    folder = trained_folder(run, winner.arch)
    return read_training(folder) if (folder / RECORD).is_file() else None


def valid_accuracy(training: Training) -> float:
    """Accuracy on the validation images, by which winners are compared."""
    if training.valid is None:
        raise TypeError("a winner is judged on validation images")
    return training.valid.fraction


def forget_checkpoint(run: Path, arch: str) -> None:
    """Remove the checkpoint of a winner that was trained; its weights stay.

    Raises:
      OSError: if it cannot be removed.
    """
    (trained_folder(run, arch) / CHECKPOINT).unlink(missing_ok=True)


def epochs_within(
    images: TrainingData,
    architecture: Int64[ndarray, "D"],
    start: Start,
    recipe: str,
    seconds: float,
) -> float:
    """Epochs that fit, each judged on the validation images, with the test and the report after them."""
    if seconds <= _REPORTED_S:  # even to time one would take longer
        return 0.0
    began_s = time.monotonic()
    take_share(0, 1)
    network = start.network(architecture, images.task)
    options = TrainingOptions(teaching=start.teaching)
    epoch_s = seconds_an_epoch(network, images, recipe_named(recipe), options, on=TrainOn.train)
    accuracy_of(network, images.valid, images)  # finds the GPU's kernels, which takes longer
    timed_s = time.monotonic()
    accuracy_of(network, images.valid, images)
    judged_s = time.monotonic() - timed_s
    tested_s = judged_s * len(images.test) / len(images.valid)
    left_s = seconds - (time.monotonic() - began_s) - tested_s - _REPORTED_S
    return max(0.0, left_s / (epoch_s + judged_s))
