"""Splits that a data set lacks are drawn from its training images, once, by a seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import final

import numpy as np
from jaxtyping import Bool, Int8, Int64
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


def taken(sizes: Int64[ndarray, "groups"], count: int, most: int) -> Bool[ndarray, "groups"]:
    """Groups, in their order, that have `count` images together, or about as many; the smallest at least.

    Args:
      sizes: images of each group.
      count: images wanted.
      most: groups that may be taken.
    """
    is_taken = np.zeros(len(sizes), bool)
    left = count
    for at in np.flatnonzero(sizes <= count).tolist():
        if sizes[at] <= left and is_taken.sum() < most:
            is_taken[at], left = True, left - int(sizes[at])
    if not is_taken.any():
        is_taken[int(sizes.argmin())] = True
    return is_taken


@final
@dataclass(frozen=True)
class Draw:
    """Share and seed that missing splits are drawn with."""

    share: float  # of the training images, of each class if stratified
    seed: int
    is_stratified: bool = True
    least: int = 1  # images of each class, or of all, that a missing split gets

    def missing_splits(
        self,
        labels: Int64[ndarray, "n"],
        parts: Int8[ndarray, "n"],
        groups: Int64[ndarray, "n"],
        classes: tuple[str, ...],
    ) -> tuple[Int8[ndarray, "n"], list[str]]:
        """Draw validation and test images, where there are none, from the training images.

        Each missing split gets `share` of the training images, at least one; of each class, if
        stratified. Images of a group come into the same split.

        Args:
          labels: numbers of the classes.
          parts: values of `ImagePart`.
          groups: index of the first image of each image's group, the image itself if it is alone.
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
        is_train = parts == ImagePart.train
        first = is_train & (groups == np.arange(len(labels)))
        sizes = np.bincount(groups[is_train], minlength=len(labels))
        strata = self._strata(labels, groups, len(classes))
        is_alone = [bool((first & (strata == number)).any()) for number in range(len(classes))]
        for number, name in enumerate([*classes, "any"]):
            pool = generator.permutation(np.flatnonzero(first & (strata == number)))
            is_of_several = number == len(classes)
            if not len(pool) and (is_of_several or not self.is_stratified or not all(is_alone)):
                continue
            count = max(self.least, round(self.share * int(sizes[pool].sum())))
            is_too_few = (sizes[pool] == 1).all() and len(pool) <= count * len(missing)
            if len(pool) <= len(missing) or is_too_few:
                if is_of_several and self.is_stratified and all(is_alone):
                    continue  # a few groups of several classes are trained on
                raise self._too_few(name, len(pool), missing)
            for later, part in zip(range(len(missing))[::-1], missing, strict=True):
                is_taken = taken(sizes[pool], count, len(pool) - later - 1)
                new_parts[pool[is_taken]] = part
                pool = pool[~is_taken]
        follows = is_train & (parts[groups] == ImagePart.train)
        new_parts[follows] = new_parts[groups[follows]]
        of = " of every class" if self.is_stratified else ""
        share = f"{self.share:.0%}{of}{' for each' if len(missing) > 1 else ''}"
        drawn = f"{words} images are drawn from the training images by seed {self.seed}: {share}"
        return new_parts, [drawn]

    def _strata(
        self, labels: Int64[ndarray, "n"], groups: Int64[ndarray, "n"], several: int
    ) -> Int64[ndarray, "n"]:
        """Class of the first image of each group; `several` for groups of several classes, or all."""
        if not self.is_stratified:
            return np.full(len(labels), several)
        strata: Int64[ndarray, "n"] = labels.copy()
        strata[groups[labels != labels[groups]]] = several
        return strata

    def _too_few(self, name: str, count: int, missing: Sequence[ImagePart]) -> UserError:
        """The error of a class with too few images."""
        words = " and ".join(part.words for part in missing)
        return UserError(
            f"class {name!r} has {count} different training images, too few to draw "
            f"{words} images from; it needs {self.least * len(missing) + 1} or more. Images that are nearly "
            f"equal, or of one group, count once: add others, or folders val/ and test/, or say that they "
            f"differ by groups=none of nas.fit"
        )
