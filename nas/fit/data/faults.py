"""Faults of a user's images: some are refused, others are a line of the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Int8, Int64
from numpy import ndarray

from edgenas_core.types.errors import UserError
from nas.fit.data.splits import ImagePart

MOST_SHARED = 0.05
"""Share of validation or test images that may be training images too; beyond it, accuracy is a sham."""

_EXAMPLES = 3
_COUNTED = 12  # classes whose images are counted in words


def images_left_out(reasons: Mapping[str, str], count: int) -> str:
    """Line on the images that cannot be used; empty if there are none.

    Args:
      reasons: why each image is left out, by its name.
      count: number of all images.
    """
    by_reason: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        by_reason.setdefault(reason, []).append(name)
    parts = [f"{len(names)} {reason} ({_few(names)})" for reason, names in by_reason.items()]
    return f"left out: {len(reasons):,} of {count:,} images, {'; '.join(parts)}" if parts else ""


def check_classes(
    labels: Int64[ndarray, "n"],
    parts: Int8[ndarray, "n"],
    classes: Sequence[str],
    left_out: str,
    *,
    each: bool,
) -> None:
    """Refuse what cannot be learned.

    Raises:
      UserError: if there are no training images, or none of `each` class, or less than two classes.
    """
    if len(labels) and not (parts == ImagePart.train).any():
        raise UserError("there are no training images; add a folder or split `train`")
    if len(classes) < 2:
        raise UserError(
            f"two classes or more are needed; there is {len(classes)}: {', '.join(classes)}; put the images of each class "
            f"into a folder of its name, or write a table labels.csv of file names and labels beside them"
            f"{left_out and f'; {left_out}'}"
        )
    counts = {
        part: np.bincount(labels[parts == part], minlength=len(classes)) for part in ImagePart
    }
    for number, name in enumerate(classes if each else ()):
        if not counts[ImagePart.train][number]:
            elsewhere = [part.words for part in ImagePart if counts[part][number]]
            where = f"{' and '.join(elsewhere)} images only" if elsewhere else "no usable image"
            raise UserError(
                f"class {name!r} has {where}; add training images of it, or remove the class"
                f"{left_out and f'; {left_out}'}"
            )


def images_of_classes(
    labels: Int64[ndarray, "n"],
    parts: Int8[ndarray, "n"],
    classes: Sequence[str],
    sizes: Int64[ndarray, "n 2"],
    side: int,
) -> str:
    """Line on the number of images of each split and class, their median size, and those that are enlarged."""
    splits = ", ".join(f"{int((parts == part).sum()):,} {part.words}" for part in ImagePart)
    counts = np.bincount(labels, minlength=len(classes))
    order = np.argsort(-counts, kind="stable")
    ends = order if len(order) <= _COUNTED else [*order[: _COUNTED - 1], order[-1]]
    each = [f"{classes[at]}: {counts[at]:,}" for at in ends]
    more = len(order) - len(ends)
    width, height = np.median(sizes, axis=0)
    enlarged = int((sizes.min(1) < side).sum())
    return (
        f"{len(labels):,} images ({splits}) of {len(classes):,} classes: {', '.join(each)}"
        f"{f' ({more:,} classes between)' if more else ''}; median size {width:g} x {height:g} pixels"
        f"{f', {enlarged:,} are enlarged to {side}' if enlarged else ''}"
    )


def classes_uncovered(
    labels: Int64[ndarray, "n"], parts: Int8[ndarray, "n"], classes: Sequence[str]
) -> list[str]:
    """A line for each split that has no image of some classes."""
    lines = []
    for part in (ImagePart.valid, ImagePart.test):
        counts = np.bincount(labels[parts == part], minlength=len(classes))
        absent = [name for name, count in zip(classes, counts, strict=True) if not count]
        if absent:
            lines.append(
                f"classes without a {part.words} image, on which {part.words} accuracy says nothing: "
                f"{len(absent)} of {len(classes)} ({_few(absent)})"
            )
    return lines


def images_repeated(
    labels: Int64[ndarray, "n"], parts: Int8[ndarray, "n"], equal_to: Int64[ndarray, "n"]
) -> list[str]:
    """Refuse a leak between splits; return a line on each smaller overlap.

    Images are equal if their pixels are, cropped and resized to one side.

    Raises:
      UserError: if more than `MOST_SHARED` of a split's images are in another split, too.
    """
    lines = []
    for part, other in (
        (ImagePart.valid, ImagePart.train),
        (ImagePart.test, ImagePart.train),
        (ImagePart.test, ImagePart.valid),
    ):
        inside = equal_to[parts == part]
        shared = int(np.isin(inside, equal_to[parts == other]).sum())
        line = (
            f"{part.words} images that are {other.words} images, too: {shared:,} of {len(inside):,}"
        )
        if shared > MOST_SHARED * len(inside):
            raise UserError(
                f"{line}, so that {part.words} accuracy would be wrong; remove them from one of the "
                f"two (up to {MOST_SHARED:.0%} are let pass)"
            )
        if shared:
            lines.append(line)
    repeated = len(labels) - len(np.unique(equal_to))
    if repeated:
        lines.append(f"images equal to another one: {repeated:,}")
    contradictory = int((labels != labels[equal_to]).sum())
    if contradictory:
        lines.append(f"images in another class than an equal one: {contradictory:,}")
    return lines


def _few(names: Sequence[str]) -> str:
    more = len(names) - _EXAMPLES
    return ", ".join(names[:_EXAMPLES]) + (f" and {more:,} more" if more > 0 else "")
