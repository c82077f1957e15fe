"""Faults of a user's images: errors of one line, or sentences of the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Int8, Int64
from numpy import ndarray

from common.types.errors import UserError
from nas.accuracy.images.decode import Treatment
from nas.accuracy.images.splits import Part

MOST_SHARED = 0.05
"""Share of validation or test images that may be training images too; beyond it, accuracy is a sham."""

_EXAMPLES = 3


def told_left_out(reasons: Mapping[str, str], count: int) -> tuple[str, ...]:
    """Sentence on the images that cannot be used.

    Args:
      reasons: why each image is left out, by its name.
      count: number of all images.
    """
    if not reasons:
        return ()
    by_reason: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        by_reason.setdefault(reason, []).append(name)
    each = [f"{len(names)} {reason} ({_few(names)})" for reason, names in by_reason.items()]
    return (f"{len(reasons):,} of {count:,} images are left out: {'; '.join(each)}",)


def told_treatments(treatments: Counter[Treatment]) -> tuple[str, ...]:
    """Sentence on each kind of image that is not plain RGB."""
    return tuple(
        f"{_images(count)} {_are(count)} {treatment.value}"
        for treatment, count in treatments.items()
        if treatment is not Treatment.none
    )


def check_classes(
    labels: Int64[ndarray, "n"],
    parts: Int8[ndarray, "n"],
    classes: Sequence[str],
    left_out: tuple[str, ...],
) -> None:
    """Refuse what cannot be learned.

    Raises:
      UserError: if there are no training images, or none of a class, or less than two classes.
    """
    if len(labels) and not (parts == Part.train).any():
        raise UserError("there are no training images; add a folder or split `train`")
    if len(classes) < 2:
        only = f"one class, {classes[0]!r}" if classes else "no class"
        raise UserError(f"the images have {only}; a classifier needs two or more")
    counts = {part: np.bincount(labels[parts == part], minlength=len(classes)) for part in Part}
    for number, name in enumerate(classes):
        if counts[Part.train][number]:
            continue
        elsewhere = [part.words for part in (Part.valid, Part.test) if counts[part][number]]
        where = f"{' and '.join(elsewhere)} images only" if elsewhere else "no usable image"
        sentence = f"class {name!r} has {where}; add training images of it, or remove the class"
        raise UserError(". ".join((sentence, *left_out)))


def told_uncovered(
    labels: Int64[ndarray, "n"], parts: Int8[ndarray, "n"], classes: Sequence[str]
) -> tuple[str, ...]:
    """Sentence on classes that a split has no image of."""
    told = []
    for part in (Part.valid, Part.test):
        counts = np.bincount(labels[parts == part], minlength=len(classes))
        absent = [name for name, count in zip(classes, counts, strict=True) if not count]
        if absent:
            told.append(
                f"{len(absent)} of {len(classes)} classes have no {part.words} image "
                f"({_few(absent)}): {part.words} accuracy says nothing of them"
            )
    return tuple(told)


def check_equal_images(
    labels: Int64[ndarray, "n"], parts: Int8[ndarray, "n"], equal_to: Int64[ndarray, "n"]
) -> tuple[str, ...]:
    """Refuse a leak between splits; return a sentence on each smaller overlap.

    Images are equal if their pixels are, after cropping and resizing.

    Raises:
      UserError: if more than `MOST_SHARED` of a split's images are in another split, too.
    """
    told = []
    for part, other in ((Part.valid, Part.train), (Part.test, Part.train), (Part.test, Part.valid)):
        inside = equal_to[parts == part]
        shared = int(np.isin(inside, equal_to[parts == other]).sum())
        if not shared:
            continue
        sentence = (
            f"{shared:,} of {len(inside):,} {part.words} images are {other.words} images, too"
        )
        if shared > MOST_SHARED * len(inside):
            raise UserError(
                f"{sentence}, so that {part.words} accuracy would be wrong; remove them from one of "
                f"the two (up to {MOST_SHARED:.0%} are let pass)"
            )
        told.append(sentence)
    repeated = len(labels) - len(np.unique(equal_to))
    if repeated:
        told.append(f"{_images(repeated)} {_are(repeated)} equal to another one")
    contradictory = int((labels != labels[equal_to]).sum())
    if contradictory:
        told.append(
            f"{_images(contradictory)} {_are(contradictory)} in another class than an equal one"
        )
    return tuple(told)


def _few(names: Sequence[str]) -> str:
    more = len(names) - _EXAMPLES
    return ", ".join(names[:_EXAMPLES]) + (f" and {more:,} more" if more > 0 else "")


def _images(count: int) -> str:
    return f"{count:,} image{'s' * (count != 1)}"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"
