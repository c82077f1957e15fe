"""Encoded images as square RGB pixels, and the range of those of more than 8 bits."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, final

import numpy as np
from jaxtyping import UInt8
from numpy import ndarray
from PIL import Image, UnidentifiedImageError

from nas.fit.data.pixels import (
    FORMATS,
    MOST_PIXELS,
    UnusableImageError,
    cropped,
    has_alpha,
    is_deep,
    limits_of,
    rgb,
    stretched,
    upright,
)

Limits: TypeAlias = tuple[float, float] | None
"""Pixel values of deep images that become 0 and 255; None: all have 8 bits."""

if TYPE_CHECKING:
    from nas.fit.data.source import Encoded

_ORIENTATION, _UPRIGHT = 0x0112, 4
"""EXIF's tag, and its values up to which width is width."""

MOST_BYTES = 256 * 2**20
"""Limit on an image's file."""


class Treatment(Enum):
    """Conversion of an image that is not plain RGB."""

    none = ""
    grey = "grey, repeated in three channels"
    transparent = "transparent, laid on white"
    cmyk = "CMYK, converted to RGB"
    deep = "of more than 8 bits, scaled to 8"


class UndecodableError(Exception):
    """The file is no image that can be used; the message completes "it is ..."."""


@final
@dataclass(frozen=True)
class Decoded:
    """A decoded image."""

    pixels: UInt8[ndarray, "side side 3"]
    treatment: Treatment
    size: tuple[int, int]  # width and height of the photo, pixels


def decode(
    encoded: Encoded, side: int, limits: Limits = None, *, is_cropped: bool = True
) -> Decoded:
    """Decode an image; crop it to a square, or stretch it to one, and resize it.

    Args:
      encoded: a file, its content, or pixels.
      side: height and width of the result, pixels.
      limits: pixel values of deep images that become 0 and 255.
      is_cropped: at both ends of the longer side; otherwise it is stretched.

    Raises:
      UndecodableError: if it is damaged, too large, or in another format.
    """
    square = cropped if is_cropped else stretched
    if isinstance(encoded, ndarray):
        pixels = square(Image.fromarray(encoded), side)
        return Decoded(pixels, Treatment.none, encoded.shape[1::-1])
    content = _content(encoded)
    if not content:
        raise UndecodableError("empty")
    try:
        with Image.open(io.BytesIO(content), formats=FORMATS) as header:
            size = header.size[::-1] if _orientation(header) > _UPRIGHT else header.size
        image = upright(io.BytesIO(content), side if is_cropped else 0)
        return Decoded(square(rgb(image, limits), side), _treatment(image), size)
    except UnidentifiedImageError as error:
        raise UndecodableError(f"not {', '.join(FORMATS[:-1])} or {FORMATS[-1]}") from error
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise UndecodableError(f"larger than {MOST_PIXELS // 10**6} million pixels") from error
    except UnusableImageError as error:
        raise UndecodableError(str(error)) from error
    except Exception as error:  # damaged files raise whatever the decoder stumbles over
        raise UndecodableError("truncated or damaged") from error


def orientation(file: Path) -> int:
    """How the camera was held, 1 to 8 as EXIF numbers it; 1 where the file does not say.

    Raises:
      OSError: if it is no image.
    """
    with Image.open(file, formats=FORMATS) as header:
        return _orientation(header)


def _orientation(image: Image.Image) -> int:
    return int(image.getexif().get(_ORIENTATION, 1))


def _treatment(image: Image.Image) -> Treatment:
    if is_deep(image):
        return Treatment.deep
    if has_alpha(image) and image.convert("RGBA").getchannel("A").getextrema() != (255, 255):
        return Treatment.transparent
    grey = dict.fromkeys(("1", "L", "LA"), Treatment.grey)
    return {**grey, "CMYK": Treatment.cmyk}.get(image.mode, Treatment.none)


def limits_of_all(images: Iterable[Encoded]) -> Limits:
    """Least and largest pixel value of those images that have more than 8 bits; None if there are none."""
    every = []
    for encoded in images:
        if isinstance(encoded, ndarray):
            return None
        try:
            content = encoded if isinstance(encoded, Path) else io.BytesIO(encoded)
            with Image.open(content, formats=FORMATS) as image:
                if is_deep(image) and image.width * image.height <= MOST_PIXELS:
                    every.append(limits_of(image))
        except Exception:  # noqa: BLE001, S112 - told when the image is decoded
            continue
    limits = np.array([each for each in every if each is not None])
    return (float(limits[:, 0].min()), float(limits[:, 1].max())) if len(limits) else None


def limits_text(limits: Limits, deep: int, *, is_given: bool) -> tuple[str, ...]:
    """Line on the range of pixel values; none for images of 8 bits.

    Args:
      limits: pixel values that become 0 and 255.
      deep: number of images of more than 8 bits.
      is_given: by the user; otherwise it is the range of the set.
    """
    if limits is None:
        return ()
    low, high = limits
    if not deep:
        return (f"range={low:g}:{high:g} changes nothing: no image has more than 8 bits",)
    origin = "as range= says" if is_given else "the range of the set"
    line = (
        f"images of more than 8 bits: pixel values {low:g} to {high:g}, {origin}, become 0 to 255"
    )
    return (line,)


def _content(image: Path | bytes) -> bytes:
    try:
        size = len(image) if isinstance(image, bytes) else image.stat().st_size
        if size > MOST_BYTES:
            raise UndecodableError(f"larger than {MOST_BYTES // 2**20} MB")
        return image if isinstance(image, bytes) else image.read_bytes()
    except OSError as error:
        raise UndecodableError(f"unreadable ({error.strerror})") from error
