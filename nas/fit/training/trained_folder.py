"""Folder of a trained network: `weights.safetensors`, and `training.json` with the record of its training.

`nas.fit` and `nas.train` write it, `nas.export` reads it. In the folder of a run it is
`trained/<key of the architecture>`.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, final

import numpy as np
from jaxtyping import Float, Int64
from numpy import ndarray

from edgenas_core.files.atomic_file import replacing
from edgenas_core.files.typed_json import read_json, write_json
from edgenas_core.types.errors import UserError
from nas.fit.data.image_set import UNEVEN
from nas.fit.learners.base import ClassMetric

if TYPE_CHECKING:
    from torch import Tensor

SCHEMA = 1
"""Version of `training.json`."""

RECORD = "training.json"
"""The file that makes a folder one of a trained network; it is written last."""

WEIGHTS = "weights.safetensors"

PICTURES = "pictures"
"""Folder of what a learner shows, `00.jpg` and so on."""


class TrainingState(Enum):
    """State of a training when its folder was written."""

    finished = "finished"
    interrupted = "interrupted"  # by its budget, before the recipe's last epoch


@final
@dataclass(frozen=True)
class Judged:
    """Accuracy, or another metric, on the images of one split."""

    fraction: float
    images: int
    interval: tuple[float, float] | None = None  # 95 %, of another metric

    @property
    def sd(self) -> float:
        """Binomial standard deviation of the fraction."""
        return math.sqrt(self.fraction * (1 - self.fraction) / self.images)

    @property
    def text(self) -> str:
        """The metric with its interval, if it has one, and the number of images."""
        shown = f"{self.fraction:.2%}"
        if self.interval is not None:
            shown += f" [{100 * self.interval[0]:.1f}, {100 * self.interval[1]:.1f}]"
        return f"{shown} on {self.images:,}"


@final
@dataclass(frozen=True)
class ClassResult:
    """Test images of one class."""

    name: str
    images: int
    right: int
    taken_for: str | None  # most frequent wrong answer; None: all were right


@final
@dataclass(frozen=True)
class WrongImage:
    """A test image that the network puts into another class."""

    index: int  # among the test images
    name: str  # of its class
    taken_for: str
    share: float  # probability of that answer


MOST_CLASSES, MOST_WRONG = 40, 24
"""Classes up to which the record has their confusion, and wrong images that it names."""


def confusion_of(
    labels: Int64[ndarray, "n"], answers: Int64[ndarray, "n"], classes: int
) -> tuple[tuple[int, ...], ...]:
    """Images by class, and by the class that they were put into; empty for too many classes."""
    if classes > MOST_CLASSES:
        return ()
    counts = np.bincount(classes * labels + answers, minlength=classes**2)
    return tuple(map(tuple, counts.reshape(classes, classes).tolist()))


def worst_of(
    classes: tuple[str, ...],
    labels: Int64[ndarray, "n"],
    probabilities: Float[ndarray, "n classes"],
) -> tuple[WrongImage, ...]:
    """The wrong answers that the network is surest of."""
    answers, shares = probabilities.argmax(1), probabilities.max(1)
    wrong = np.flatnonzero(answers != labels)
    return tuple(
        WrongImage(at, classes[labels[at]], classes[answers[at]], float(shares[at]))
        for at in wrong[np.argsort(-shares[wrong], kind="stable")][:MOST_WRONG].tolist()
    )


def class_results(
    classes: tuple[str, ...], labels: Int64[ndarray, "n"], answers: Int64[ndarray, "n"]
) -> tuple[ClassResult, ...]:
    """Results of each class that has images."""
    results = []
    for number, name in enumerate(classes):
        counts = np.bincount(answers[labels == number], minlength=len(classes))
        right, images = int(counts[number]), int(counts.sum())
        counts[number] = 0
        wrong = classes[int(counts.argmax())] if counts.any() else None
        if images:
            results.append(ClassResult(name, images, right, wrong))
    return tuple(results)


def balanced_accuracy(results: Sequence[ClassResult]) -> float | None:
    """Mean of the classes' accuracies, where their images differ by three times or more; else None."""
    images = [result.images for result in results]
    if max(images, default=0) < UNEVEN * min(images, default=1):
        return None
    return sum(result.right / result.images for result in results) / len(results)


@final
@dataclass(frozen=True)
class Training:
    """Record of a training: network, images, recipe, accuracies."""

    schema: int
    state: str  # of `State`
    space: str
    arch: str  # as the space writes it
    data: str  # the setting `data=`; a path is absolute
    data_seed: int  # that missing splits were drawn with
    data_name: str
    data_title: str
    data_digest: str
    classes: tuple[str, ...]
    side: int  # pixels
    mean: tuple[float, ...]  # of the training pixels, fractions, per channel
    sd: tuple[float, ...]
    recipe: dict[str, str]  # its settings by name; `name` is one of them
    epochs: int  # done
    seed: int
    trained_on: str  # train, or train_and_valid
    valid: Judged | None  # None where the validation images were trained on
    test: Judged | None  # of a winner only
    seconds: float
    device: str
    versions: dict[str, str]  # of packages
    by_class: tuple[ClassResult, ...] = ()  # on the test images
    confusion: tuple[tuple[int, ...], ...] = ()  # test images by class and by answer
    worst: tuple[WrongImage, ...] = ()  # the surest first
    losses: tuple[float, ...] = ()  # of each epoch
    accuracies: tuple[float | None, ...] = ()  # after each epoch; None where it was not judged
    metric: str = "accuracy"  # that they are
    class_metrics: tuple[ClassMetric, ...] = ()  # of a learner of its own, on the test split
    pictures: tuple[str, ...] = ()  # captions of its pictures
    values: tuple[tuple[float, float], ...] = ()  # true and answered numbers of test images
    unit: tuple[float, float] = (0.0, 1.0)  # that outputs are converted to, as in `ImageSet`


def trained_folder(run: Path, arch: str) -> Path:
    """Folder of an architecture's trained network in a run's folder."""
    return run / "trained" / hashlib.sha256(arch.encode()).hexdigest()[:12]


def write_trained(folder: Path, weights: Mapping[str, Tensor], training: Training) -> None:
    """Write the weights, then the record, each atomically.

    Raises:
      OSError: if a file cannot be written.
    """
    from safetensors.torch import save  # noqa: PLC0415 - imports torch

    content = save({name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()})
    (folder / RECORD).unlink(missing_ok=True)  # which never stands beside weights of another
    with replacing(folder / WEIGHTS) as file:
        file.write(content)
    write_json(folder / RECORD, training)


def read_training(folder: Path) -> Training:
    """The record of a trained network.

    Raises:
      UserError: if there is none, or it is corrupt or of another version.
    """
    path = folder / RECORD
    try:
        training = read_json(path, Training)
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is not the record of a training: {error}") from error
    if training.schema != SCHEMA:
        raise UserError(f"{path} is of schema {training.schema}, and this version reads {SCHEMA}")
    return training
