"""Choice of the images for training and for evaluation."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, overload

from nas.fit.data.image_set import Images, ImageSet

if TYPE_CHECKING:
    from nas.fit.learners.data import LearnerData, LearnerSplit, TrainingData, TrainingSplit


class TrainOn(Enum):
    """Images for training; accuracy is measured on other images."""

    train = "train"  # and judged on the validation split
    train_and_valid = "train_and_valid"  # and judged on the test split

    @overload
    def training(self, images: ImageSet) -> tuple[Images, ...]: ...
    @overload
    def training(self, images: LearnerData) -> tuple[LearnerSplit, ...]: ...
    def training(self, images: TrainingData) -> tuple[TrainingSplit, ...]:
        """Splits that are trained on."""
        both = (images.train, images.valid)
        return both[:1] if self is TrainOn.train else both

    @overload
    def judging(self, images: ImageSet) -> Images: ...
    @overload
    def judging(self, images: LearnerData) -> LearnerSplit: ...
    def judging(self, images: TrainingData) -> TrainingSplit:
        """Split that accuracy is measured on."""
        return images.valid if self is TrainOn.train else images.test
