"""`unlabelled=`: photos whose classes nobody has said, in a folder and all folders below."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import final

import numpy as np
from jaxtyping import UInt8
from numpy import ndarray
from PIL import Image

from edgenas_core.types.errors import UserError
from edgenas_core.types.printable import printable
from nas.fit.data.class_folders import IMAGE_SUFFIXES
from nas.fit.data.decode import UndecodableError, decode
from nas.fit.data.faults import images_left_out
from nas.fit.data.groups import near_pairs, thumbnail
from nas.fit.data.image_set import UNLABELLED, Images, ImageSet
from nas.fit.data.pixels import in_channels, stretched
from nas.fit.data.rows import files_below

_MOST_BYTES = 2**30
"""Memory that photos take at most; of more, a random part is used."""

_MOST_THREADS = 8


@final
class UnlabelledPhotos:
    """Photos below a folder, in an order that is the same for all sides.

    Left out are faulty files and copies of a validation or test image, found as `groups.near_pairs` finds them.
    """

    def __init__(self, folder: Path) -> None:
        """Finds the files.

        Raises:
          UserError: if there is no such folder, or no image below it.
        """
        if not folder.is_dir():
            raise UserError(f"unlabelled={folder}: there is no such folder; name one with photos")
        files = files_below(folder, *IMAGE_SUFFIXES)
        if not files:
            raise UserError(f"unlabelled={folder} has no images, in no folder below either")
        self._folder, self._files = folder, files
        self._order = np.random.default_rng(0).permutation(len(files))

    def __len__(self) -> int:
        return len(self._files)

    def usable(self, count: int, images: ImageSet) -> tuple[list[Path], str]:
        """Files of the first photos that can be used, and a line on those that cannot.

        Args:
          count: of photos that are looked at.
          images: the data set, whose validation and test images may not be among them.
        """
        held_out = np.concatenate([images.valid.pixels, images.test.pixels])
        equal_to_held_out = {sha256(image.tobytes()).digest() for image in held_out}
        count = min(count, _MOST_BYTES // images.train.pixels[0].nbytes)
        files = [self._files[at] for at in self._order[:count].tolist()]
        decoded = _decoded(files, images)
        near = _near_to(held_out, decoded)
        reasons, usable = dict[str, str](), list[Path]()
        for at, (file, pixels) in enumerate(zip(files, decoded, strict=True)):
            name = printable(str(file.relative_to(self._folder)))
            if isinstance(pixels, str):
                reasons[name] = pixels
            elif sha256(pixels.tobytes()).digest() in equal_to_held_out:
                reasons[name] = "equal to a validation or test image"
            elif at in near:
                reasons[name] = "nearly equal to a validation or test image"
            else:
                usable.append(file)
        return usable, images_left_out(reasons, len(files))


def unlabelled_images(files: Sequence[Path], images: ImageSet) -> Images:
    """Photos as a data set's images are at its side, without a label.

    Raises:
      UserError: if one cannot be decoded any more.
    """
    pixels = []
    for decoded in _decoded(files, images):
        if isinstance(decoded, str):
            raise UserError(f"unlabelled= has changed while the fit ran: a photo is {decoded}")
        pixels.append(decoded)
    return Images(np.stack(pixels), np.full(len(pixels), UNLABELLED))


def _near_to(
    held_out: UInt8[ndarray, "held side side channels"],
    photos: Sequence[UInt8[ndarray, "side side channels"] | str],
) -> set[int]:
    """Positions of the photos that are nearly equal to an image that is held out."""
    places = [at for at, pixels in enumerate(photos) if not isinstance(pixels, str)]
    every = [*held_out, *(pixels for pixels in photos if not isinstance(pixels, str))]
    small = [
        stretched(Image.fromarray(np.broadcast_to(image, (*image.shape[:2], 3))), 32)
        for image in every
    ]
    pairs = (
        near_pairs(np.stack([thumbnail(image) for image in small]))
        if small
        else np.zeros((0, 2), int)
    )
    first = len(held_out)
    return {places[b - first] for a, b in pairs.tolist() if a < first <= b}


def _decoded(
    files: Sequence[Path], images: ImageSet
) -> list[UInt8[ndarray, "side side channels"] | str]:
    """Pixels of each photo, or what is wrong with it."""
    attempt = partial(_attempt, images=images)
    with ThreadPoolExecutor(min(_MOST_THREADS, os.cpu_count() or 1)) as pool:
        return list(pool.map(attempt, files))


def _attempt(file: Path, images: ImageSet) -> UInt8[ndarray, "side side channels"] | str:
    try:
        decoded = decode(file, images.side, images.limits)
    except UndecodableError as error:
        return str(error)
    pixels: UInt8[ndarray, "side side channels"] = in_channels(decoded.pixels, images.channels)
    return pixels
