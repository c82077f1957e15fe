"""The accuracy of a network's int8 ONNX file: calibrated on training images, judged beside fp32."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from jaxtyping import Float32
from numpy import ndarray
from torch import nn

from common.types.errors import UserError
from nas.accuracy.images.image_set import Images
from nas.accuracy.learners.data import LearnerData, TrainingData, has_classes
from nas.accuracy.training.trained_folder import Judged
from nas.export.accuracy import classes_of, prepared
from nas.report.summary import Int8Accuracy
from runtime.network.formats.onnx_export import onnx_bytes
from runtime.network.formats.onnx_quantisation import quantised
from runtime.network.formats.onnx_session import OnnxSession

CALIBRATED_ON = 256
"""Training images that the scales of int8 are taken from."""


def calibration(
    images: TrainingData, side: int, batch_size: int
) -> Iterator[Float32[ndarray, "b c side side"]]:
    """Batches of training images."""
    if isinstance(images, LearnerData):
        for inputs in images.inputs(CALIBRATED_ON).split(batch_size):
            yield np.resize(inputs.numpy(), (batch_size, *inputs.shape[1:]))
        return
    for start in range(0, min(CALIBRATED_ON, len(images.train)), batch_size):
        batch = prepared(images.train, images, side, slice(start, start + batch_size))
        yield np.resize(batch, (batch_size, *batch.shape[1:]))


def int8_accuracy(
    network: nn.Module, images: TrainingData, side: int, *, is_winner: bool
) -> Int8Accuracy:
    """Accuracy of a network's int8 file beside its fp32 file; on the test images only of a winner.

    Raises:
      UserError: if ONNX Runtime cannot quantise the network.
    """
    if not has_classes(images):
        raise TypeError(f"{images.title} has no classes")

    def judged(content: bytes, split: Images) -> Judged:
        classes = classes_of(OnnxSession(content), split, images, side, 1)
        return Judged(float((classes == split.labels).mean()), len(split))

    example = torch.from_numpy(prepared(images.train, images, side, slice(1)))
    fp32 = onnx_bytes(network.cpu().eval(), [example])
    try:
        int8 = quantised(fp32, calibration(images, side, 1))
    except ValueError as refused:
        raise UserError(str(refused)) from refused
    return Int8Accuracy(
        judged(fp32, images.valid),
        judged(int8, images.valid),
        judged(fp32, images.test) if is_winner else None,
        judged(int8, images.test) if is_winner else None,
    )
