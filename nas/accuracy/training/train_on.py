"""Choice of the images that are trained on, and of those that judge."""

from __future__ import annotations

from enum import Enum

from nas.accuracy.images.image_set import Images, ImageSet


class TrainOn(Enum):
    """Images that are trained on; accuracy is measured on others."""

    train = "train"  # and judged on the validation split
    train_and_valid = "train_and_valid"  # and judged on the test split

    def training(self, images: ImageSet) -> tuple[Images, ...]:
        """Splits that are trained on."""
        both = (images.train, images.valid)
        return both[:1] if self is TrainOn.train else both

    def judging(self, images: ImageSet) -> Images:
        """Split that accuracy is measured on."""
        return images.valid if self is TrainOn.train else images.test
