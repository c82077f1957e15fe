"""One encoded image as square RGB pixels; what a hostile or damaged file holds is never executed.

The longer side is cropped at both ends, and the square is resized bilinearly:
`PIL.ImageOps.fit(image.convert("RGB"), (side, side), PIL.Image.Resampling.BILINEAR)`.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import final

import numpy as np
from jaxtyping import UInt8
from numpy import ndarray
from PIL import Image, ImageOps, UnidentifiedImageError

from nas.fit.data.source import Encoded

FORMATS = ("JPEG", "PNG", "BMP", "GIF", "TIFF", "WEBP", "PPM")
"""Formats that are read. Pillow reads EPS too, by running Ghostscript."""

_ORIENTATION, _UPRIGHT = 0x0112, 4
"""EXIF's tag, and its values up to which width is width."""

MOST_PIXELS = 100_000_000
MOST_BYTES = 256 * 2**20
"""Limits on one image, and on its file."""


class Treatment(Enum):
    """Conversion of an image that is not plain RGB."""

    none = ""
    grey = "grey, repeated in three channels"
    transparent = "transparent, laid on white"
    cmyk = "CMYK, converted to RGB"
    deep = "of 16 bits, scaled to 8"


class UndecodableError(Exception):
    """The file is no image that can be used; the message completes "it is ..."."""


@final
@dataclass(frozen=True)
class Decoded:
    """A decoded image."""

    pixels: UInt8[ndarray, "side side 3"]
    treatment: Treatment
    size: tuple[int, int]  # width and height of the photo, pixels


def decode(image: Encoded, side: int) -> Decoded:
    """Decode, crop and resize an image.

    Raises:
      UndecodableError: if it is damaged, too large, or in another format.
    """
    if isinstance(image, ndarray):
        return Decoded(_square(Image.fromarray(image), side), Treatment.none, image.shape[1::-1])
    content = _content(image)
    if not content:
        raise UndecodableError("empty")
    try:
        with Image.open(io.BytesIO(content), formats=FORMATS) as opened:
            return _decoded(opened, side)
    except UndecodableError:
        raise
    except UnidentifiedImageError as error:
        raise UndecodableError(f"not {', '.join(FORMATS[:-1])} or {FORMATS[-1]}") from error
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise UndecodableError(f"larger than {MOST_PIXELS // 10**6} million pixels") from error
    except Exception as error:  # damaged files raise whatever the decoder stumbles over
        raise UndecodableError("truncated or damaged") from error


def _content(image: Path | bytes) -> bytes:
    try:
        size = len(image) if isinstance(image, bytes) else image.stat().st_size
        if size > MOST_BYTES:
            raise UndecodableError(f"larger than {MOST_BYTES // 2**20} MB")
        return image if isinstance(image, bytes) else image.read_bytes()
    except OSError as error:
        raise UndecodableError(f"unreadable ({error.strerror})") from error


def _decoded(opened: Image.Image, side: int) -> Decoded:
    if opened.width * opened.height > MOST_PIXELS:
        raise UndecodableError(f"larger than {MOST_PIXELS // 10**6} million pixels")
    size = opened.size if opened.getexif().get(_ORIENTATION, 1) <= _UPRIGHT else opened.size[::-1]
    if opened.format == "JPEG":
        opened.draft(None, (2 * side, 2 * side))  # libjpeg halves large ones as it decodes them
    image = ImageOps.exif_transpose(opened)
    mode = image.mode
    if mode.startswith("I"):
        return Decoded(_square(_eight_bits(image), side), Treatment.deep, size)
    if mode == "F":
        raise UndecodableError("of floating-point pixels")
    grey = dict.fromkeys(("1", "L", "LA"), Treatment.grey)
    treatment = {**grey, "CMYK": Treatment.cmyk}.get(mode, Treatment.none)
    if image.has_transparency_data:
        layer = image.convert("RGBA")
        if layer.getchannel("A").getextrema() != (255, 255):
            treatment = Treatment.transparent
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), layer)
    return Decoded(_square(image, side), treatment, size)


def _eight_bits(image: Image.Image) -> Image.Image:
    values = np.asarray(image)
    if values.min() < 0 or values.max() > 2**16 - 1:
        raise UndecodableError("of 32-bit pixels")
    return Image.fromarray(np.rint(values / 257).astype(np.uint8))


def _square(image: Image.Image, side: int) -> UInt8[ndarray, "side side 3"]:
    fitted = ImageOps.fit(image.convert("RGB"), (side, side), Image.Resampling.BILINEAR)
    return np.asarray(fitted)
