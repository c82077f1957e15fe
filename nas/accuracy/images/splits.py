"""Splits that a data set lacks are drawn from its training images: stratified, once, by a seed."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from jaxtyping import Int8, Int64
from numpy import ndarray

from common.types.errors import UserError


class Part(IntEnum):
    """Split that an image belongs to."""

    train = 0
    valid = 1
    test = 2

    @property
    def words(self) -> str:
        """Name of the split in a sentence."""
        return {Part.train: "training", Part.valid: "validation", Part.test: "test"}[self]


def missing(parts: Int8[ndarray, "n"]) -> tuple[Part, ...]:
    """Splits without any image."""
    return tuple(part for part in Part if not (parts == part).any())


def drawn(
    labels: Int64[ndarray, "n"],
    parts: Int8[ndarray, "n"],
    equal_to: Int64[ndarray, "n"],
    classes: tuple[str, ...],
    *,
    share: float,
    seed: int,
) -> Int8[ndarray, "n"]:
    """Draw validation and test images, where there are none, from the training images.

    Each missing split gets `share` of the training images of each class, at least one. Equal images
    come into the same split.

    Args:
      labels: numbers of the classes.
      parts: values of `Part`.
      equal_to: index of the first image with the same pixels, the image itself if there is none.
      classes: names of the classes.
      share: fraction of the training images of each class.
      seed: of the draw.

    Raises:
      UserError: if a class has too few images.
    """
    wanted = missing(parts)
    generator = np.random.default_rng(seed)
    found: Int8[ndarray, "n"] = parts.copy()
    first = (parts == Part.train) & (equal_to == np.arange(len(labels)))
    for number, name in enumerate(classes):
        pool = generator.permutation(np.flatnonzero(first & (labels == number)))
        count = max(1, round(share * len(pool)))
        if wanted and len(pool) <= count * len(wanted):
            raise UserError(
                f"class {name!r} has {len(pool)} different training images, too few to draw "
                f"{' and '.join(part.words for part in wanted)} images from; it needs "
                f"{len(wanted) + 1} or more"
            )
        for part in wanted:
            found[pool[:count]] = part
            pool = pool[count:]
    follows = (parts == Part.train) & (parts[equal_to] == Part.train)
    found[follows] = found[equal_to[follows]]
    return found
