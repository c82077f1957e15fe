"""Splits that a data set lacks are drawn from its training images, once, by a seed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import final

import numpy as np
from jaxtyping import Int8, Int64
from numpy import ndarray

from edgenas_core.types.errors import UserError


class ImagePart(IntEnum):
    """Split that an image belongs to."""

    train = 0
    valid = 1
    test = 2

    @property
    def words(self) -> str:
        """Name of the split in a sentence."""
        return ("training", "validation", "test")[self]


@final
@dataclass(frozen=True)
class Draw:
    """Share and seed that missing splits are drawn with."""

    share: float  # of the training images, of each class if stratified
    seed: int
    is_stratified: bool = True

    def missing_splits(
        self,
        labels: Int64[ndarray, "n"],
        parts: Int8[ndarray, "n"],
        equal_to: Int64[ndarray, "n"],
        classes: tuple[str, ...],
    ) -> tuple[Int8[ndarray, "n"], list[str]]:
        """Draw validation and test images, where there are none, from the training images.

        Each missing split gets `share` of the training images, at least one; of each class, if
        stratified. Equal images come into the same split.

        Args:
          labels: numbers of the classes.
          parts: values of `ImagePart`.
          equal_to: index of the first image with the same pixels, the image itself if there is none.
          classes: names of the classes.

        Returns:
          The new parts, and a line on what was drawn, if anything was.

        Raises:
          UserError: if a class has too few images.
        """
        missing = [part for part in ImagePart if not (parts == part).any()]
        if not missing:
            return parts, []
        words = " and ".join(part.words for part in missing)
        generator = np.random.default_rng(self.seed)
        new_parts: Int8[ndarray, "n"] = parts.copy()
        first = (parts == ImagePart.train) & (equal_to == np.arange(len(labels)))
        if not self.is_stratified:
            labels, classes = np.zeros_like(labels), ("any",)
        for number, name in enumerate(classes):
            pool = generator.permutation(np.flatnonzero(first & (labels == number)))
            count = max(1, round(self.share * len(pool)))
            if len(pool) <= count * len(missing):
                raise UserError(
                    f"class {name!r} has {len(pool)} different training images, too few to draw "
                    f"{words} images from; it needs {len(missing) + 1} or more"
                )
            for part in missing:
                new_parts[pool[:count]] = part
                pool = pool[count:]
        follows = (parts == ImagePart.train) & (parts[equal_to] == ImagePart.train)
        new_parts[follows] = new_parts[equal_to[follows]]
        of = " of every class" if self.is_stratified else ""
        share = f"{self.share:.0%}{of}{' for each' if len(missing) > 1 else ''}"
        drawn = f"{words} images are drawn from the training images by seed {self.seed}: {share}"
        return new_parts, [drawn]
