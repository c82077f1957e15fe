"""Classes that are each other's mirror images, such as left and right arrows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64, Int64, UInt8
from numpy import ndarray

_ALIKE = 0.8
"""Correlation of one class's mean image, mirrored, with the other's, without what all classes share."""

_LEAST = 5
"""Images of a class, of fewer of which the mean says nothing."""

_FLATTEST = 1.0
"""Standard deviation, in grey levels, of a mean image that shows something."""

_MOST_CLASSES = 200


def mirrored_pairs(
    images: UInt8[ndarray, "n h w"], labels: Int64[ndarray, "n"]
) -> list[tuple[int, int]]:
    """Pairs of classes of which one's mean image, mirrored, is the other's."""
    classes = [
        number for number in np.unique(labels).tolist() if (labels == number).sum() >= _LEAST
    ]
    if not 2 <= len(classes) <= _MOST_CLASSES:
        return []
    means = np.stack([images[labels == number].mean(0, dtype=np.float64) for number in classes])
    shared = means.mean(0)
    differences = means - (shared + shared[:, ::-1]) / 2
    straight, mirrored = (_standardised(each) for each in (differences, differences[:, :, ::-1]))
    likeness = mirrored @ straight.T  # 1 where the one, mirrored, is the other
    itself = np.diag(likeness)
    return [
        (classes[a], classes[b])
        for a in range(len(classes))
        for b in range(a + 1, len(classes))
        if likeness[a, b] > _ALIKE and max(itself[a], itself[b]) < _ALIKE / 2
    ]


def _standardised(images: Float64[ndarray, "n h w"]) -> Float64[ndarray, "n pixels"]:
    flat = images.reshape(len(images), -1)
    flat = flat - flat.mean(1, keepdims=True)
    sd = flat.std(1, keepdims=True)
    return np.where(sd < _FLATTEST, 0, flat / np.maximum(sd, 1e-9) / np.sqrt(flat.shape[1]))


def mirrors_text(pairs: Sequence[tuple[int, int]], classes: Sequence[str]) -> list[str]:
    """Line on classes that are each other's mirror images; none without any."""
    if not pairs:
        return []
    named = ", ".join(f"{classes[a]} and {classes[b]}" for a, b in pairs[:3])
    line = (
        f"warning: classes that look like mirror images of each other: {named}; half of the images to train on are "
        f"mirrored, which hides the difference, unless augment= lacks flip: set augment=crop"
    )
    return [line]
