"""A set of images with class labels, in three splits, ready for training."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from enum import Enum
from hashlib import sha256
from typing import Any, ClassVar, final

import numpy as np
from jaxtyping import Float64, Int64, UInt8
from numpy import ndarray

from edgenas_core.types.errors import UserError
from edgenas_core.types.task import Task

UNLABELLED = -1
"""Label of an image whose class nobody has said."""

UNEVEN = 3
"""Times that the largest class has the images of the smallest one, from which classes count alike."""


class Target(Enum):
    """What is learnt of the labels, which are names of classes."""

    classification = "classification"
    regression = "regression"  # the number that the name is
    multilabel = "multilabel"  # the labels that the name joins by +


NO_LABEL = "none"
"""Name of the class of images that have none of several labels."""


def labels_of(classes: tuple[str, ...]) -> tuple[str, ...]:
    """Labels that names of classes join by `+`, sorted."""
    return tuple(sorted({label for name in classes for label in parts_of(name)} - {NO_LABEL}))


def parts_of(name: str) -> list[str]:
    """Labels that a name joins by `+`.

    Raises:
      UserError: if one of them is empty, as in C++.
    """
    parts = [part.strip() for part in name.split("+")]
    if not all(parts):
        raise UserError(
            f"task=multilabel: the name {name!r} joins an empty label by +; rename it, as to {name.replace('+', 'p')}"
        )
    return parts


_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", re.ASCII)


def values_of(classes: tuple[str, ...]) -> Float64[ndarray, "classes"]:
    """Numbers that are the names of classes.

    Raises:
      UserError: if a name is no plain decimal number.
    """
    for name in classes:
        if not _NUMBER.fullmatch(name.strip()) or not math.isfinite(float(name)):
            raise UserError(
                f"task=regression: the class {name!r} is no number; write numbers as 12, -0.5 or 1e-3"
            )
    return np.array([float(name) for name in classes])


def class_weights(labels: Int64[ndarray, "n"]) -> Float64[ndarray, "classes"]:
    """Weight of an image of each class, 1 in the mean: all 1, or equal for all classes together."""
    counts = np.bincount(labels)
    present = counts[counts > 0]
    if not len(present) or present.max() < UNEVEN * present.min():
        return np.ones(len(counts))
    return np.asarray(len(labels) / (len(present) * np.maximum(counts, 1)))


def weighted_accuracy(answers: Int64[ndarray, "n"], labels: Int64[ndarray, "n"]) -> float:
    """Accuracy, the mean over the classes where they differ much in size."""
    return float(((answers == labels) * class_weights(labels)[labels]).mean())


@final
@dataclass(frozen=True)
class Images:
    """Images of one split, in random order: the first n of them are a random subset."""

    pixels: UInt8[ndarray, "n side side channels"]  # read-only, memory-mapped where it is a file
    labels: Int64[ndarray, "n"]  # numbers of the classes

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self.labels)

    def first(self, count: int) -> Images:
        """The first images."""
        return Images(self.pixels[:count], self.labels[:count])

    def __reduce__(self) -> tuple[Any, ...]:
        """Send a memory-mapped file to another process by its path, not by its content."""
        pixels = self.pixels
        if not isinstance(pixels, np.memmap) or not pixels.flags.c_contiguous:
            return Images, (np.asarray(pixels), self.labels)
        whole = pixels
        while isinstance(whole.base, np.memmap):
            whole = whole.base
        begin = whole.offset + pixels.ctypes.data - whole.ctypes.data
        return _mapped, (str(pixels.filename), begin, pixels.shape, self.labels)


def _mapped(path: str, begin: int, shape: tuple[int, ...], labels: Int64[ndarray, "n"]) -> Images:
    try:
        return Images(np.memmap(path, np.uint8, "r", begin, shape), labels)
    except OSError as error:
        raise UserError(
            f"this machine cannot read {path}; processes on several machines need a folder that all "
            f"of them see, named by XDG_CACHE_HOME"
        ) from error


@final
@dataclass(frozen=True)
class ImageSet:
    """Training, validation and test images of one data set."""

    name: str  # short, safe in file names and table columns
    title: str  # as a page writes it
    classes: tuple[str, ...]
    train: Images
    valid: Images
    test: Images  # for the winner only
    mean: tuple[float, ...]  # of the training pixels, fractions of 255, per channel
    sd: tuple[float, ...]
    digest: str  # SHA-256 of side, classes, pixels, labels and splits, hexadecimal
    report: tuple[str, ...]  # sentences for the user: what was left out, changed, drawn
    limits: tuple[float, float] | None = (
        None  # pixel values of images of more than 8 bits that became 0 and 255
    )
    has_drawn_splits: bool = False  # validation or test images are from the training images
    target: Target = Target.classification
    unit: tuple[float, float] = (0.0, 1.0)
    """Mean and standard deviation of the training values, for a regression: a network learns standardised
    values, and its answer in the user's unit is mean + sd * output. 0 and 1: a network answers in the unit."""
    channels: str = "rgb"  # of the pixels, one of `pixels.CHANNELS`
    items: ClassVar[str] = "images"

    @property
    def side(self) -> int:
        """Height and width of the images, pixels."""
        return int(self.train.pixels.shape[1])

    @property
    def task(self) -> Task:
        """The data set as a network sees it."""
        return Task(
            self.name, len(self.outputs), self.side, self.train.pixels.shape[-1], self.title
        )

    @property
    def outputs(self) -> tuple[str, ...]:
        """Name of each number that a network gives for an image."""
        if self.target is Target.regression:
            return ("value",)
        return labels_of(self.classes) if self.target is Target.multilabel else self.classes

    @property
    def metric(self) -> str:
        """Name of the metric."""
        return _METRICS[self.target]

    def learnt_as(self, target: Target) -> ImageSet:
        """The images for another target; a checkpoint of one is none of another.

        Raises:
          UserError: if no training image shows one of several labels, or numbers are none or all equal.
        """
        if target is self.target:
            return self
        unit = self.unit
        if target is Target.regression:
            values = values_of(self.classes)[self.train.labels]
            unit = (float(values.mean()), float(values.std()))
            if not 0 < unit[1] < math.inf:
                raise UserError(
                    f"task=regression: all training images have the value {values[0]:g}, or values are too large; "
                    f"two or more values below 1e150 are needed"
                )
        if target is Target.multilabel:
            if labels_of(self.classes) == ():
                raise UserError(f"task=multilabel: {', '.join(self.classes)} name no label")
            shown = labels_of(tuple(self.classes[at] for at in np.unique(self.train.labels)))
            if missing := set(labels_of(self.classes)).difference(shown):
                raise UserError(f"no training image shows the label {min(missing)}; add some")
        version = "standardised " if target is Target.regression else ""
        digest = sha256(f"{self.digest} {version}{target.value}".encode()).hexdigest()
        return replace(self, target=target, digest=digest, unit=unit)


_METRICS = {
    Target.classification: "accuracy",
    Target.regression: "R2",
    Target.multilabel: "F1",
}
