"""One training of the command: planned within its time, run, judged and written."""

from __future__ import annotations

import dataclasses
import math
import platform
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import final

import torch
from rich.console import Console
from torch import nn

from common.command.console import say
from common.command.exit_status import plain_interrupts
from common.types.errors import UserError
from nas.accuracy.base import at_chance
from nas.accuracy.training.checkpoint import epochs_done, epochs_of
from nas.accuracy.training.evaluation import accuracy_of
from nas.accuracy.training.optimization.replicas import agreed, place
from nas.accuracy.training.recipe import Recipe
from nas.accuracy.training.train_on import TrainOn
from nas.accuracy.training.trained_folder import SCHEMA, Judged, State, Training, write_trained
from nas.accuracy.training.trainer import (
    DivergedTrainingError,
    Trained,
    TrainingOptions,
    seconds_an_epoch,
    train,
)
from nas.accuracy.training.trial import NetworkOf
from nas.accuracy.training.untrained import untrained
from nas.train.config import TrainConfig
from nas.train.progress import TrainingProgress
from nas.train.subject import Subject
from runtime.machine.description import versions

CHECKPOINT = "checkpoint.safetensors"
_TENSORBOARD = "tensorboard"
_SHARE_OF_HOURS = 0.95
"""Share of the time that the epochs are planned for; the rest is a margin."""


@final
@dataclass(frozen=True)
class Start:
    """Beginning of a training: the network, and an earlier training that it goes on from."""

    network: NetworkOf
    continues: Path | None = None  # checkpoint of a shorter training
    words: str = ""  # for the record; empty if it begins with new weights


@final
@dataclass(frozen=True)
class TrainingJob:
    """A network to train, and where its results belong."""

    config: TrainConfig
    subject: Subject
    network: nn.Module
    device: torch.device
    console: Console
    start: Start
    ends_s: float = math.inf  # on the monotonic clock; no epoch begins that would end later

    @classmethod
    def of(
        cls,
        config: TrainConfig,
        subject: Subject,
        device: torch.device,
        console: Console,
        *,
        start: Start | None = None,
        ends_s: float = math.inf,
    ) -> TrainingJob:
        """Build the network, by default with new weights of the seed."""
        start = start or Start(partial(untrained, subject.space))
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(config.seed)
            network = start.network(subject.architecture, subject.images.task)
        return cls(config, subject, network, device, console, start, ends_s)

    def run(self) -> Training:
        """Train, or go on with the training, and write the results; returns the record.

        Raises:
          UserError: if the time is too short, the training diverges, or memory is too small.
          OSError: if a file cannot be written.
        """
        recipe = self._within_hours(self.config.chosen_recipe())
        self._say(
            f"{self.subject.arch} on {self.subject.images.title}: {recipe.epochs} epochs of {recipe.name} on "
            f"{self.device}, into {self.subject.folder}"
        )
        try:
            with plain_interrupts():
                trained = self._trained(recipe)
        except KeyboardInterrupt:
            self._say("the same command goes on after the last whole epoch")
            raise
        except DivergedTrainingError as error:
            raise UserError(f"{error}; choose another recipe= or seed=") from error
        except torch.OutOfMemoryError as error:
            raise UserError(
                f"the training needs more memory than {self.device} has, even with one image at a time; "
                f"choose a smaller side="
            ) from error
        return self._write(recipe, trained)

    def _within_hours(self, recipe: Recipe) -> Recipe:
        """The recipe with as many epochs as the time allows; an interrupted training keeps its number."""
        hours = self.config.hours
        if hours is None:
            return recipe
        begun_with = epochs_of(self.subject.folder / CHECKPOINT)
        if begun_with is not None:
            return replace(recipe, epochs=begun_with)
        seconds = agreed(
            seconds_an_epoch(
                self.network, self.subject.images, recipe, device=self.device, on=self.config.images
            )
        )
        possible = int(_SHARE_OF_HOURS * 3600 * hours / seconds)
        if possible < 1:
            raise UserError(
                f"hours={hours:g} is less than one epoch takes on {self.device}, about {seconds:.0f} s; "
                f"allow more time, or choose a smaller side="
            )
        if possible < recipe.epochs:
            self._say(
                f"an epoch takes about {seconds:.1f} s: {possible} of {recipe.epochs} epochs fit in "
                f"hours={hours:g}"
            )
        return replace(recipe, epochs=min(possible, recipe.epochs))

    def _trained(self, recipe: Recipe) -> Trained:
        checkpoint = self.subject.folder / CHECKPOINT
        done = epochs_done(checkpoint)
        if done:
            self._say(f"goes on after epoch {done}")
        ends_s = min(self.ends_s, time.monotonic() + 3600 * (self.config.hours or math.inf))
        tensorboard = self.subject.folder / _TENSORBOARD if place()[0] == 0 else None
        with TrainingProgress(self.console, tensorboard, recipe.epochs, done) as progress:
            return train(
                self.network,
                self.subject.images,
                recipe,
                TrainingOptions(
                    seed=self.config.seed,
                    checkpoint=checkpoint,
                    continues=self.start.continues,
                    on_epoch=progress,
                    stop=lambda: agreed(time.monotonic() + progress.epoch_s) > ends_s,
                    # the test images are for the end
                    evaluate_every=1 if self.config.images is TrainOn.train else recipe.epochs,
                ),
                device=self.device,
                on=self.config.images,
            )

    def _write(self, recipe: Recipe, trained: Trained) -> Training:
        """Judge the network on the test images, write it, and say what came of it."""
        images = self.subject.images
        test = Judged(
            accuracy_of(self.network, images.test, images, device=self.device)
            if self.config.images is TrainOn.train
            else trained.accuracy,
            len(images.test),
        )
        valid = (
            Judged(trained.accuracy, len(images.valid))
            if self.config.images is TrainOn.train
            else None
        )
        is_finished = trained.epochs == recipe.epochs
        training = Training(
            schema=SCHEMA,
            state=(State.finished if is_finished else State.interrupted).value,
            space=self.subject.space.name,
            arch=self.subject.arch,
            data=self.subject.data,
            data_seed=self.subject.data_seed,
            data_name=images.name,
            data_title=images.title,
            data_digest=images.digest,
            classes=images.classes,
            side=images.side,
            mean=images.mean,
            sd=images.sd,
            recipe={
                **{name: str(value) for name, value in dataclasses.asdict(recipe).items()},
                **({"start": self.start.words} if self.start.words else {}),
            },
            epochs=trained.epochs,
            seed=self.config.seed,
            trained_on=self.config.images.value,
            valid=valid,
            test=test,
            seconds=trained.seconds,
            device=_title(self.device),
            versions=versions(),
        )
        if place()[0] == 0:  # else another process writes it
            write_trained(self.subject.folder, self.network.state_dict(), training)
        for note in trained.notes:
            self._say(note)
        if not is_finished:
            self._say(
                f"the time is over after epoch {trained.epochs} of {recipe.epochs}; the same command goes on"
            )
        on_valid = "" if valid is None else f", {_text(valid)} validation images"
        self._say(
            f"accuracy {_text(test)} test images{on_valid}; {trained.epochs} epochs in {trained.seconds:.0f} s"
        )
        if at_chance(test.fraction, test.sd, len(images.classes)):
            self._say(
                "warning: that is no better than chance; train longer (epochs=, hours=), and check that the "
                "classes' images differ"
            )
        return training

    def _say(self, line: str) -> None:
        say(self.console, line)


def _text(judged: Judged) -> str:
    return f"{judged.fraction:.2%} on {judged.images:,}"


def _title(device: torch.device) -> str:
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    return platform.processor() or platform.machine()
