"""One training of the command: plan it within its time, run it, evaluate the network and write it."""

from __future__ import annotations

import dataclasses
import math
import platform
import shutil
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Int64
from numpy import ndarray
from rich.console import Console

from edgenas_core.command.console import say
from edgenas_core.command.exit_status import plain_interrupts
from edgenas_core.command.interruption import unheard
from edgenas_core.machine.description import versions
from edgenas_core.types.errors import UserError
from edgenas_core.types.units import epochs_text
from nas.accuracy.base import HasWeights, at_chance
from nas.accuracy.slow import Fidelity
from nas.fit.data.image_set import ImageSet
from nas.fit.data.mirrors import mirrored_pairs, mirrors_text
from nas.fit.data.open import SPLIT_SEED
from nas.fit.learners.base import HasFindings, Metric, blamed
from nas.fit.learners.data import LearnerData, TrainingSplit, has_classes
from nas.fit.learners.of_images import learner_of
from nas.fit.starts.fine_tuning.trial import (
    FROZEN,
    FineTuningTrial,
    PretrainedImages,
    PretrainedNetwork,
)
from nas.fit.training.checkpoint import epochs_done, epochs_of
from nas.fit.training.device import take_share
from nas.fit.training.evaluation import logits_of, metric_of
from nas.fit.training.network import untrained
from nas.fit.training.recipe import Recipe, recipe_named
from nas.fit.training.replicas import broadcast_first, place
from nas.fit.training.step import Normalised
from nas.fit.training.teaching import Teaching
from nas.fit.training.train_on import TrainOn
from nas.fit.training.trained_folder import (
    PICTURES,
    RECORD,
    SCHEMA,
    Judged,
    Training,
    TrainingState,
    balanced_accuracy,
    class_results,
    confusion_of,
    read_training,
    worst_of,
    write_trained,
)
from nas.fit.training.trainer import (
    DivergedTrainingError,
    Epoch,
    Trained,
    TrainingOptions,
    seconds_an_epoch,
    train,
)
from nas.fit.training.trial import NetworkOf
from nas.train.config import TrainConfig
from nas.train.progress import TrainingProgress
from nas.train.subject import TrainSubject

CHECKPOINT = "checkpoint.safetensors"
_HEADS = "heads"

_MIRRORED, _CONFUSED = 2000, 0.25
"""Training images that mirrored classes are looked for in; share of two classes' images from which they are confused."""
_TENSORBOARD = "tensorboard"
_OVERRUN = 0.03
"""Share of the time by which the last epoch may end late; else there is one epoch less."""

_SHARE_OF_HOURS = 0.95
"""Share of the time that the epochs are planned for; the rest is a margin."""


@final
@dataclass(frozen=True)
class Start:
    """Beginning of a training: the network, and an earlier training that it goes on from."""

    network: NetworkOf
    continues: Path | None = None  # checkpoint of a shorter training
    words: str = ""  # for the record; empty if it begins with random initialisation
    keeps_best: bool = False  # ends with the best late epoch's weights, or those it begins with
    rate: float = 1.0  # learning rate, as a multiple of the recipe's
    planned: int | None = None  # epochs that are expected to fit into the time; None: all
    teaching: Teaching | None = None  # answers that are learnt beside the labels
    ranked: float = 0.0  # accuracy on validation images that it was chosen by


@final
class TrainingJob:
    """A network to train, and where its results belong."""

    def __init__(
        self,
        config: TrainConfig,
        subject: TrainSubject,
        device: torch.device,
        console: Console,
        *,
        start: Start | None = None,
        ends_s: float = math.inf,
    ) -> None:
        """Builds the network, by default with a random initialisation by the seed.

        No epoch begins that would end after `ends_s` on the monotonic clock.
        """
        self._config, self._subject, self._device = config, subject, device
        self._say = partial(say, console)
        self._console, self._ends_s = console, ends_s
        self._checkpoint = subject.folder / CHECKPOINT
        self._start = start or _start_of(config, subject)
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(config.seed)
            self._network = self._start.network(subject.architecture, subject.images.task)
        shutil.rmtree(subject.folder / _HEADS, ignore_errors=True)

    def run(self) -> Training:
        """Train or resume, and write the results; returns the record.

        Raises:
          UserError: if the time is too short, or the training diverges.
          torch.OutOfMemoryError: if even one image at a time takes too much memory.
          OSError: if a file cannot be written.
        """
        if self._device.type == "cpu":
            take_share(0, 1)
        if isinstance(self._subject.images, LearnerData) and self._config.processes > 1:
            raise UserError(
                f"processes={self._config.processes}: a learner of its own batches is trained in one"
            )
        recipe = self._within_hours(self._config.chosen_recipe(self._subject.recipe))
        recipe = replace(recipe, lr=recipe.lr * self._start.rate)
        subject, augmentation = self._subject, ", ".join(recipe.augmentation) or "no augmentation"
        if isinstance(subject.images, LearnerData):
            augmentation = "batches of the learner"
        self._say(
            f"{subject.arch} on {subject.images.title}: {self._length(recipe)} of "
            f"{recipe.name} ({augmentation}) on {self._device}, into "
            f"{subject.folder}"
        )
        try:
            with plain_interrupts():
                trained = self._trained(recipe)
        except KeyboardInterrupt:
            with unheard():
                self._say("the same command goes on after the last whole epoch")
            raise
        except DivergedTrainingError as error:
            raise UserError(f"{error}; choose another recipe= or seed=") from error
        return self._write(recipe, trained)

    def _length(self, recipe: Recipe) -> str:
        """Number of epochs, an estimate where a time ends them."""
        planned = self._start.planned
        return epochs_text(recipe.epochs) if planned is None else f"about {epochs_text(planned)}"

    def _within_hours(self, recipe: Recipe) -> Recipe:
        """The recipe with as many epochs as the time allows; an interrupted training keeps its number."""
        hours = self._config.hours
        if hours is None:
            return recipe
        begun_with = epochs_of(self._checkpoint)
        if begun_with is not None:
            return replace(recipe, epochs=begun_with)
        images, device, on = self._subject.images, self._device, self._config.images
        epoch_s = broadcast_first(
            seconds_an_epoch(self._network, images, recipe, device=device, on=on)
        )
        possible = int(_SHARE_OF_HOURS * 3600 * hours / epoch_s)
        if possible < 1:
            raise UserError(
                f"hours={hours:g} is less than one epoch takes on {device}, about {epoch_s:.0f} s; "
                f"allow more time, or choose a smaller side="
            )
        if possible < recipe.epochs:
            self._say(f"epochs within hours={hours:g}: {possible} of {recipe.epochs}")
        return replace(recipe, epochs=min(possible, recipe.epochs))

    def _trained(self, recipe: Recipe) -> Trained:
        done = epochs_done(self._checkpoint)
        if done:
            self._say(f"goes on after epoch {done}")
        is_judged_late = self._config.images is TrainOn.train_and_valid  # on the test images
        ends_s = min(self._ends_s, time.monotonic() + 3600 * (self._config.hours or math.inf))
        tensorboard = self._subject.folder / _TENSORBOARD if place()[0] == 0 else None

        images, late_s = self._subject.images, _OVERRUN * (ends_s - time.monotonic())

        def left(epoch: Epoch) -> int:
            judged_s = epoch.seconds - epoch.images / epoch.images_per_second
            tested_s = judged_s * len(images.test) / max(1, len(images.valid))
            return int(
                broadcast_first((ends_s + late_s - tested_s - time.monotonic()) / epoch.seconds)
            )

        is_timed = not math.isinf(ends_s)
        with TrainingProgress(
            self._console, tensorboard, recipe.epochs, done, images, is_timed=is_timed
        ) as progress:
            options = TrainingOptions(
                seed=self._config.seed,
                evaluate_every=recipe.epochs if is_judged_late else 1,
                checkpoint=self._checkpoint,
                continues=self._start.continues,
                keeps_best=self._start.keeps_best,
                on_epoch=progress,
                epochs_left=left if is_timed else None,
                planned=self._start.planned,
                teaching=self._start.teaching,
                stop=lambda: broadcast_first(time.monotonic() + progress.epoch_s / 2) > ends_s,
            )
            device, on = self._device, self._config.images
            return train(self._network, images, recipe, options, device=device, on=on)

    def _write(self, recipe: Recipe, trained: Trained) -> Training:
        """Evaluate the network on the test images, write it, and print the result."""
        subject, images = self._subject, self._subject.images
        valid = None
        if self._config.images is TrainOn.train:
            interval = None if has_classes(images) else self._metric(images.valid).interval
            valid = Judged(trained.accuracy, len(images.valid), interval)
        test, about = self._tested()
        settings = {name: str(value) for name, value in dataclasses.asdict(recipe).items()}
        if trained.notes:
            settings["departures"] = "; ".join(trained.notes)
        if self._start.words:
            settings["start"] = self._start.words
            if trained.is_beginning:
                settings["start"] += (
                    "; no late epoch helped: these are the weights before tuning, or of the ranking"
                )
            if trained.accuracy < self._start.ranked:
                settings["start"] += (
                    f"; it had {self._start.ranked:.2%} when it was ranked, and its own training did not "
                    f"regain that: allow more hours="
                )
        training = Training(
            schema=SCHEMA,
            state=(
                TrainingState.finished if trained.is_complete else TrainingState.interrupted
            ).value,
            space=subject.space.name,
            arch=subject.arch,
            data=subject.data,
            data_seed=SPLIT_SEED,
            data_name=images.name,
            data_title=images.title,
            data_digest=images.digest,
            classes=images.classes,
            side=images.side,
            mean=images.mean,
            sd=images.sd,
            recipe=settings,
            epochs=trained.epochs,
            seed=self._config.seed,
            trained_on=self._config.images.value,
            valid=valid,
            test=test,
            seconds=trained.seconds,
            device=_title(self._device),
            versions=versions(),
            losses=trained.losses,
            accuracies=trained.accuracies,
            metric=images.metric,
            unit=images.unit if isinstance(images, ImageSet) else (0.0, 1.0),
            **about,
        )
        if place()[0] == 0:  # else another process writes it
            write_trained(subject.folder, self._network.state_dict(), training)
            if shown := self._findings():
                training = replace(training, **shown)
                write_trained(subject.folder, self._network.state_dict(), training)
        self._tell(recipe, trained, training)
        return training

    def _tell(self, recipe: Recipe, trained: Trained, training: Training) -> None:
        """Say what came of it."""
        images, valid, test = self._subject.images, training.valid, training.test
        for note in trained.notes:
            self._say(note)
        if not trained.is_complete:
            self._say(f"time is over after epoch {trained.epochs} of {recipe.epochs}")
        judged = [
            f"{each.text} {name} {images.items}"
            for each, name in ((test, "test"), (valid, "validation"))
            if each is not None
        ]
        self._say(
            f"{images.metric} {', '.join(judged)}; {epochs_text(trained.epochs)} in {trained.seconds:.0f} s"
        )
        balanced = balanced_accuracy(training.by_class)
        if balanced is not None:
            self._say(f"mean over the classes: {balanced:.2%} of their test images")
        for line in self._mirrored_classes(recipe, training):
            self._say(line)
        if _is_rising(trained) and trained.epochs < recipe.epochs and trained.is_complete:
            self._say(
                f"the {images.metric} on the validation {images.items} was still rising after {epochs_text(trained.epochs)}: it is far "
                f"from trained; allow more hours="
            )
        if has_classes(images) and test and at_chance(test.fraction, test.sd, len(images.classes)):
            self._say(
                "warning: that is no better than chance; train longer (epochs=, hours=), and check that the "
                "classes' images differ"
            )

    def _mirrored_classes(self, recipe: Recipe, training: Training) -> list[str]:
        """Line on classes that are each other's mirror images, and are confused as the training mirrors them."""
        images, counts = self._subject.images, np.array(training.confusion)
        if not recipe.flip or not has_classes(images) or not len(counts):
            return []
        few = images.train.first(_MIRRORED)
        pairs = mirrored_pairs(np.asarray(few.pixels).mean(3).astype(np.uint8), few.labels)
        confused = [
            (a, b)
            for a, b in pairs
            if counts[a, b] + counts[b, a] > _CONFUSED * counts[[a, b]].sum()
        ]
        return mirrors_text(confused, images.classes)

    def _tested(self) -> tuple[Judged | None, dict[str, Any]]:
        """The metric on the test split, if there is one, and what the record holds beside it."""
        images = self._subject.images
        if has_classes(images):
            return self._classes(images)
        if not len(images.test):
            return None, {}
        metric = self._metric(images.test)
        return Judged(metric.value, len(images.test), metric.interval), {}

    def _metric(self, split: TrainingSplit) -> Metric:
        return metric_of(self._network, split, self._subject.images, device=self._device)

    def _classes(self, images: ImageSet) -> tuple[Judged, dict[str, Any]]:
        """Accuracy on the test images, and what the record holds of their classes."""
        logits = logits_of(self._network, images.test, images, device=self._device)
        probabilities = logits.softmax(1).cpu().numpy()
        answers, labels = probabilities.argmax(1), images.test.labels
        about = {
            "by_class": class_results(images.classes, labels, answers),
            "confusion": confusion_of(labels, answers, len(images.classes)),
            "worst": worst_of(images.classes, labels, probabilities),
        }
        return Judged(float((answers == labels).mean()), len(images.test)), about

    def _findings(self) -> dict[str, Any]:
        """Findings of a learner about the trained network, for the record, with pictures in its folder."""
        data, folder = self._subject.images, self._subject.folder / PICTURES
        learner = data.learner if isinstance(data, LearnerData) else learner_of(data)
        if not isinstance(learner, HasFindings) or not len(data.test):
            return {}
        unit = data.unit if isinstance(data, ImageSet) else (0.0, 1.0)
        model = Normalised(self._network, None, None, self._device, unit).eval()
        try:
            with blamed(f"findings() of learner={data.name}"), torch.no_grad():
                findings = learner.findings(model)
        except (UserError, torch.OutOfMemoryError) as error:
            self._say(f"warning: no pictures, no classes: {error}")
            return {}
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for number, picture in enumerate(findings.pictures):
            (folder / f"{number:02}.jpg").write_bytes(picture.jpeg)
        captions = tuple(picture.caption for picture in findings.pictures)
        shown = {"class_metrics": findings.classes, "pictures": captions}
        return shown | {"values": findings.values}


def _is_rising(trained: Trained) -> bool:
    """Whether the last epoch is better than all earlier ones and than the initial weights."""
    *before, last = [accuracy for accuracy in trained.accuracies if accuracy is not None] or [0.0]
    return bool(before) and max(before) < last == trained.accuracy < 1


def pretrained_start(
    network: PretrainedNetwork, architecture: Int64[ndarray, "D"], rate: float, *, keeps_best: bool
) -> Start:
    """The start of a fine-tuning, with the origin of its weights."""
    space = network.space
    tuned = space.depths[int(space.depth(architecture))]
    words = f"begun with the weights of {space.origin(architecture)}; tuned: {tuned}"
    if space.is_new(architecture):
        words = space.origin(architecture)
    return Start(network, None, words, keeps_best=keeps_best, rate=rate)


def _start_of(config: TrainConfig, subject: TrainSubject) -> Start:
    """Random initialisation, or pretrained weights with the classifier and learning rate that a search found."""
    space, row = subject.space, subject.architecture
    if not isinstance(space, HasWeights):
        return Start(partial(untrained, space))
    heads, recipe = subject.folder / _HEADS, recipe_named(subject.recipe)
    network = PretrainedNetwork(space, PretrainedImages(space, subject.named), heads)
    if not epochs_done(subject.folder / CHECKPOINT) and not space.is_new(row):
        trial = FineTuningTrial(network, recipe, len(subject.images.classes))
        trial(row, Fidelity("frozen features", FROZEN), config.seed)
    rate = 1.0
    if config.recipe is None and (subject.folder / RECORD).is_file():
        rate = float(read_training(subject.folder).recipe.get("lr", recipe.lr)) / recipe.lr
    judges = config.images is TrainOn.train  # else the test images would choose
    return pretrained_start(network, row, rate, keeps_best=judges)


def _title(device: torch.device) -> str:
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    return platform.processor() or platform.machine()
