"""Accuracy of an exported file on images, as the exported scripts prepare them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from jaxtyping import Float32, Int64, UInt8
from numpy import ndarray
from PIL import Image
from torch import Tensor, nn

from edgenas_core.machine.description import usable_cores
from nas.export.network import Session, logits_of
from nas.export.on_board.check import normalised
from nas.fit.data.image_set import Images, ImageSet
from nas.fit.learners.data import LearnerData, TrainingData
from nas.fit.learners.of_images import learner_of
from nas.trials.survey import wilson_interval

_CHUNK = 64
"""Batches that a thread takes at once."""


@final
@dataclass(frozen=True)
class FileAccuracy:
    """Share of the test images that a file puts into the right class, or another metric."""

    right: int | None  # None: of another metric
    images: int
    interval: tuple[float, ...] | None  # 95 %, Wilson's
    as_fp32: float | None  # share of the images that get the class that the fp32 file gives them
    value: float | None = None  # of another metric

    @property
    def fraction(self) -> float:
        """Share of the images that are right, or the metric."""
        return (self.value or 0.0) if self.right is None else self.right / self.images

    def __str__(self) -> str:
        if self.interval is None:
            return f"{self.fraction:.2%}"
        low, high = self.interval
        return f"{self.fraction:.2%} [{low:.2%}, {high:.2%}]"


@final
class FileNetwork(nn.Module):
    """A file in its runtime, as a learner calls a network."""

    def __init__(self, session: Session, batch_size: int) -> None:
        super().__init__()
        self._session, self._batch_size = session, batch_size

    def forward(self, inputs: Tensor) -> Tensor:
        """Outputs of the file."""
        outputs = logits_of(self._session, inputs.contiguous().numpy(), self._batch_size)
        return torch.from_numpy(outputs)


def metric_of(
    session: Session, data: TrainingData, side: int, batch_size: int
) -> FileAccuracy | None:
    """The metric of a file on the test split; None without one."""
    network, count = FileNetwork(session, batch_size).eval(), len(data.test)
    if not count:
        return None
    if isinstance(data, LearnerData):
        metric = data.judged(network, data.test.batches(torch.device("cpu")))
    else:
        mean, sd = data.unit
        batches = ((mean + sd * network(images), labels) for images, labels in _batches(data, side))
        metric = learner_of(data).metric(nn.Identity(), batches)
    return FileAccuracy(None, count, metric.interval, None, metric.value)


def _batches(data: ImageSet, side: int) -> Iterator[tuple[Tensor, Tensor]]:
    for start in range(0, len(data.test), _CHUNK):
        which = slice(start, start + _CHUNK)
        labels = torch.from_numpy(np.array(data.test.labels[which]))
        yield torch.from_numpy(prepare(data.test, data, side, which)), labels


def accuracy_of(
    classes: Int64[ndarray, "n"], of_fp32: Int64[ndarray, "n"], images: Images
) -> FileAccuracy:
    """Compare a file's classes with the labels, and with the classes of the fp32 file."""
    right = int((classes == images.labels).sum())
    return FileAccuracy(
        right,
        len(images),
        wilson_interval(right / len(images), len(images)),
        float((classes == of_fp32).mean()),
    )


def classes_of(
    session: Session, images: Images, image_set: ImageSet, side: int, batch_size: int
) -> Int64[ndarray, "n"]:
    """Class number of each image, resized."""
    return np.asarray(outputs_of_images(session, images, image_set, side, batch_size).argmax(1))


def outputs_of_images(
    session: Session, images: Images, image_set: ImageSet, side: int, batch_size: int
) -> Float32[ndarray, "n classes"]:
    """Outputs for each image, resized; the session is called by a thread for each processor."""

    def outputs(start: int) -> Float32[ndarray, "b classes"]:
        which = slice(start, start + _CHUNK * batch_size)
        return logits_of(session, prepare(images, image_set, side, which), batch_size)

    starts = range(0, len(images), _CHUNK * batch_size)
    with ThreadPoolExecutor(len(usable_cores())) as pool:
        return np.concatenate(list(pool.map(outputs, starts)))


def prepare(
    images: Images, image_set: ImageSet, side: int, which: slice
) -> Float32[ndarray, "n c side side"]:
    """Images of a slice, resized and normalised for a network of this side."""
    about = {"mean": image_set.mean, "sd": image_set.sd}
    inputs: Float32[ndarray, "n c h w"] = normalised(
        resize_images(images.pixels[which], side), about
    )
    return inputs


def resize_images(
    pixels: UInt8[ndarray, "n h w channels"], side: int
) -> UInt8[ndarray, "n side side channels"]:
    """Images resized to a side as `infer.py` does; training resizes in the same way without rounding."""
    if pixels.shape[1] == side:
        return pixels
    depth = pixels.shape[-1]
    pictures = (Image.fromarray(image.squeeze(-1) if depth == 1 else image) for image in pixels)
    size, how = (side, side), Image.Resampling.BILINEAR
    resized = [np.asarray(picture.resize(size, how)) for picture in pictures]
    return np.stack(resized).reshape(-1, side, side, depth)
