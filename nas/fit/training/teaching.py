"""Answers of teachers, stored once for each photo: a training learns them at no further cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float32
from numpy import ndarray
from torch import nn

from nas.fit.data.image_set import Images, ImageSet
from nas.fit.training.evaluation import logits_of


@final
@dataclass(frozen=True)
class Teaching:
    """What teachers answer to the training images, and to images without a label."""

    teachers: str  # their names; a checkpoint that others taught is of another training
    answers: Float32[ndarray, "n o"]  # to the training images in their order, then to the others
    unlabelled: Images | None = None  # at the side of the network that is taught
    share: float = 0.5
    """Weight of the answers to images with a label, whose label has the rest (Hinton et al., 2015)."""


def answers_to(
    network: nn.Module, splits: Sequence[Images], images: ImageSet, *, mirrors: bool
) -> Float32[ndarray, "n o"]:
    """Outputs of a teacher for each image of some splits.

    Args:
      network: moved to the device.
      splits: images at the network's side.
      images: data set that the network takes them as.
      mirrors: whether an answer is the mean of those to the image and its mirror image.
    """
    every = []
    for split in splits:
        views = [split, Images(split.pixels[:, :, ::-1], split.labels)][: 1 + mirrors]
        outputs = [logits_of(network, view, images).float().cpu().numpy() for view in views]
        every.append(np.mean(outputs, 0, dtype=np.float32))
    return np.concatenate(every)
