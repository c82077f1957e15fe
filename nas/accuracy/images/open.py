"""`data=`: the user's images, from whatever they are kept in."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import numpy as np
from jaxtyping import Int8, Int64, UInt8
from numpy import ndarray
from PIL import Image

from nas.accuracy.images.image_set import CHANNELS, Images, ImageSet
from nas.accuracy.images.splits import Part, drawn
from runtime.shell.errors import UserError

DEFAULT_SIDE = 32
"""Pixels; the side that the bundled latency tables are for."""

DEFAULT_SHARE = 0.15
"""Share of the training images that each missing split is drawn with."""


def open_images(
    data: str,
    *,
    side: int | None = None,
    seed: int = 0,
    share: float = DEFAULT_SHARE,
    cache: Path | None = None,  # noqa: ARG001 - folders of images come next
) -> ImageSet:
    """Open a data set; its images are square, RGB and `side` pixels wide.

    Args:
      data: `digits`, which scikit-learn embeds.
      side: height and width in pixels, 32 by default.
      seed: of the validation and test images that are drawn where the data set has none.
      share: fraction of the training images of each class that each missing split is drawn with.
      cache: folder of the decoded images; that of the user's caches by default.

    Raises:
      UserError: if there is no such data set, or it cannot be trained on.
    """
    if data != "digits":
        raise UserError(f"data={data}: no such data set; choose digits")
    pixels, labels = _digits(DEFAULT_SIDE if side is None else side)
    classes = tuple("0123456789")
    given = np.zeros(len(labels), np.int8)
    parts = drawn(labels, given, np.arange(len(labels)), classes, share=share, seed=seed)
    return _image_set(pixels, labels, parts, classes, seed)


def _digits(side: int) -> tuple[UInt8[ndarray, "n side side 3"], Int64[ndarray, "n"]]:
    from sklearn.datasets import load_digits  # noqa: PLC0415 - slow to import

    found = load_digits()
    grey = np.rint(found.images * (255 / 16)).astype(np.uint8)
    resized = [
        np.asarray(Image.fromarray(one).resize((side, side), Image.Resampling.BILINEAR))
        for one in grey
    ]
    return np.stack(resized)[..., None].repeat(CHANNELS, -1), found.target.astype(np.int64)


def _image_set(
    pixels: UInt8[ndarray, "n side side 3"],
    labels: Int64[ndarray, "n"],
    parts: Int8[ndarray, "n"],
    classes: tuple[str, ...],
    seed: int,
) -> ImageSet:
    generator = np.random.default_rng(seed)
    orders = [generator.permutation(np.flatnonzero(parts == part)) for part in Part]
    train, valid, test = (Images(pixels[order], labels[order]) for order in orders)
    digest = sha256()
    for images in (train, valid, test):
        digest.update(images.pixels.tobytes())
        digest.update(images.labels.tobytes())
    fraction = train.pixels / 255
    return ImageSet(
        "digits",
        "Digits",
        classes,
        train,
        valid,
        test,
        tuple(fraction.mean((0, 1, 2)).tolist()),
        tuple(fraction.std((0, 1, 2)).tolist()),
        digest.hexdigest(),
        (),
    )
