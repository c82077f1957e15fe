"""Data on a device, for any number of trainings: images, or the batches of a learner."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from edgenas_core.types.errors import UserError
from nas.fit.data.image_set import ImageSet, Target
from nas.fit.learners.data import LearnerData, LearnerSplit, TrainingData, seeded_batches
from nas.fit.learners.of_images import ImageLearner, learner_of
from nas.fit.training.batches import Batches, DeviceImages, hash_of
from nas.fit.training.evaluation import learner_metric, mean_worth
from nas.fit.training.network import renew_statistics
from nas.fit.training.recipe import Recipe
from nas.fit.training.step import ImageStep, LearnerStep, Normalised, normalised_for
from nas.fit.training.teaching import Teaching
from nas.fit.training.train_on import TrainOn

_RENEWED_ON, _BATCH = 1024, 256
"""Training images that statistics are renewed on, at most, and those of a batch."""


@final
@dataclass(frozen=True)
class ImageSources:
    """Images on a device."""

    learner: ImageLearner
    train: DeviceImages
    judge: DeviceImages
    on: TrainOn
    device: torch.device

    @property
    def digest(self) -> str:
        """That of the images."""
        return self.learner.images.digest

    @classmethod
    def open(cls, images: ImageSet, on: TrainOn, device: torch.device) -> ImageSources:
        """Upload to a GPU; on a CPU they stay in their memory map."""
        train, judge = on.training(images), on.judging(images)
        if not sum(map(len, train)) or not len(judge):
            raise UserError(f"data={images.name} has no images to train on or to judge by")
        is_balanced = images.target is Target.classification
        return cls(
            learner_of(images),
            DeviceImages(train, device, is_balanced=is_balanced),
            DeviceImages([judge], device, is_balanced=is_balanced),
            on,
            device,
        )

    def model(self, network: nn.Module) -> Normalised:
        """A network that takes bytes."""
        return normalised_for(self.learner.images, network, self.device)

    def begin(
        self, network: nn.Module, recipe: Recipe, seed: int, teaching: Teaching | None
    ) -> tuple[Batches, ImageStep]:
        """Augmented batches of a training, and its step."""
        train = self.train
        answers = torch.zeros((len(train), 0))
        if teaching is not None:
            answers = torch.from_numpy(teaching.answers)
            if teaching.unlabelled is not None:
                splits = (*self.on.training(self.learner.images), teaching.unlabelled)
                is_balanced = self.learner.images.target is Target.classification
                train = DeviceImages(splits, self.device, is_balanced=is_balanced)
        recipe = recipe.for_images(train.per_epoch)
        batch_size = recipe.batch_of(train.per_epoch)
        batches = Batches(train, recipe, batch_size, seed, answers)
        segment_steps = batches.segment_steps(self.device)
        step = ImageStep(
            self.model(network),
            recipe,
            self.learner,
            segment=(segment_steps, self.train.side, len(self.learner.images.mean)),
            batch_size=batches.batch_size,
            steps=recipe.epochs * batches.steps,
            device=self.device,
            taught_share=None if teaching is None else teaching.share,
        )
        return batches, step

    def evaluate(self, model: Normalised) -> Float[Tensor, ""]:
        """The metric of a model now."""
        return mean_worth(model, self.judge, self.learner, self.device)

    def renew_statistics(self, model: Normalised) -> None:
        """Replace the statistics of batch normalisation by those of training images; leave the model in training mode."""
        count = min(len(self.train), _RENEWED_ON)
        which = torch.linspace(0, len(self.train) - 1, count).long()
        batches = which.chunk(-(-count // _BATCH))
        renew_statistics(model, (self.train.gather(each)[0] for each in batches))
        model.train()


@final
@dataclass(frozen=True)
class LearnerBatches:
    """Batches of a learner, each epoch by a seed of its own."""

    splits: tuple[LearnerSplit, ...]
    recipe: Recipe
    seed: int
    device: torch.device
    steps: int  # batches of an epoch

    batch_size = 1
    """One batch at a time, which is not divided."""

    @property
    def images(self) -> int:
        """Items of an epoch."""
        return sum(map(len, self.splits))

    def segment_steps(self, _device: torch.device) -> int:
        """One batch at a time."""
        return 1

    def epoch(self, epoch: int, _segment_steps: int) -> Iterator[tuple[Any]]:
        """Yield the batches of an epoch, drawn by torch's default generator from its seed.

        Raises:
          UserError: if they are more or fewer than in the first pass.
        """
        count = 0
        for batch in seeded_batches(self._once, hash_of(self.seed, epoch)):
            count += 1
            if count > self.steps:
                break
            yield (batch,)
        if count != self.steps:
            raise UserError(
                f"the learner has another number of training batches in epoch {epoch + 1} than "
                f"{self.steps}, as at first"
            )

    def _once(self) -> Iterator[Any]:
        return itertools.chain.from_iterable(split.batches(self.device) for split in self.splits)


@final
@dataclass(frozen=True)
class LearnerSources:
    """A learner whose batches are moved to a device one at a time."""

    data: LearnerData
    on: TrainOn
    device: torch.device
    steps: int

    @property
    def digest(self) -> str:
        """That of the data."""
        return self.data.digest

    @classmethod
    def open(cls, data: LearnerData, on: TrainOn, device: torch.device) -> LearnerSources:
        """Count the batches of an epoch."""
        steps = sum(split.steps for split in on.training(data))
        if not steps or not len(on.judging(data)):
            raise UserError(f"{data.title} has no batches to train on or to judge by")
        return cls(data, on, device, steps)

    def begin(
        self, network: nn.Module, recipe: Recipe, seed: int, _teaching: Teaching | None
    ) -> tuple[LearnerBatches, LearnerStep]:
        """Batches of a training and its step; nothing is taught, because a learner's outputs are unknown."""
        splits = self.on.training(self.data)
        batches = LearnerBatches(splits, recipe, seed, self.device, self.steps)
        model = Normalised(network, None, None, self.device)
        steps = recipe.epochs * self.steps
        is_equal = getattr(self.data.learner, "has_equal_steps", False) and len(splits) == 1
        step = LearnerStep(
            model,
            recipe,
            self.data,
            steps=steps,
            device=self.device,
            is_captured=is_equal and self.device.type == "cuda",
        )
        return batches, step

    def evaluate(self, model: Normalised) -> float:
        """The metric of a model now."""
        return learner_metric(model, self.on.judging(self.data), self.data, self.device).value


Sources: TypeAlias = ImageSources | LearnerSources


def sources_of(data: TrainingData, on: TrainOn, device: torch.device) -> Sources:
    """Put data on a device.

    Raises:
      UserError: if there is nothing to train on, or to judge by.
    """
    if isinstance(data, LearnerData):
        return LearnerSources.open(data, on, device)
    return ImageSources.open(data, on, device)
