"""Image files as RGB pixels of 8 bits: the one decoder, which every export carries as it is.

It needs numpy and Pillow, and runs in Python 3.6. What a file holds is never executed.
"""

from typing import Any

import numpy as np
from PIL import Image, ImageOps

FORMATS = ("JPEG", "PNG", "BMP", "GIF", "TIFF", "WEBP", "PPM")
"""Formats that are read. Pillow reads EPS too, by running Ghostscript."""

MOST_PIXELS = 100000000
BILINEAR = 2

_CUT = 0.1
"""Per cent of an image's pixels that may lie beyond its limits, at either end: hot and dead pixels."""


class UnusableImageError(Exception):
    """The file is no image that can be used; the message completes "it is ..."."""


def upright(file: Any, draft: int = 0) -> Any:
    """Image of a file, turned as its camera says; a large JPEG is halved down to 2 `draft` pixels as it is decoded.

    Raises:
      UnusableImageError: if it is too large.
      Exception: whatever the decoder stumbles over.
    """
    with Image.open(file, formats=FORMATS) as image:
        if image.width * image.height > MOST_PIXELS:
            raise UnusableImageError("larger than 100 million pixels")
        if image.format == "JPEG" and draft:
            image.draft(None, (2 * draft, 2 * draft))
        return ImageOps.exif_transpose(image)


def is_deep(image: Any) -> bool:
    """Whether pixels have more than 8 bits: whole numbers (I;16, I) or floating-point ones (F)."""
    return bool(image.mode[0] in "IF")


def limits_of(image: Any) -> Any:
    """Least and largest value of a deep image's pixels, without the most extreme ones; None without numbers."""
    values = np.asarray(image)
    values = values[np.isfinite(values)]
    if not values.size:
        return None
    low, high = np.percentile(values, [_CUT, 100 - _CUT])
    return float(low), float(high)


def rgb(image: Any, limits: Any = None) -> Any:
    """RGB image of 8 bits: grey is repeated, transparency lies on white, deep pixels are scaled.

    Args:
      image: upright.
      limits: pixel values of deep images that become 0 and 255; None: those of 16 bits.

    Raises:
      UnusableImageError: if pixels are beyond 16 bits, or floating-point numbers, and there are no limits.
    """
    if is_deep(image):
        values = np.nan_to_num(np.asarray(image, "float64"))
        low, high = (0.0, 65535.0) if limits is None else limits
        if limits is None and image.mode == "F":
            raise UnusableImageError("of floating-point pixels, whose range is unknown")
        if limits is None and not 0 <= values.min() <= values.max() <= high:
            raise UnusableImageError("of 32-bit pixels, whose range is unknown")
        scaled = np.clip((values - low) * (255 / max(high - low, 1e-300)), 0, 255)
        image = Image.fromarray(np.rint(scaled).astype("uint8"))
    if has_alpha(image):
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image.convert("RGBA"))
    return image.convert("RGB")


def has_alpha(image: Any) -> bool:
    """Whether pixels may be transparent."""
    return "A" in image.getbands() or "a" in image.getbands() or "transparency" in image.info


CHANNELS = ("rgb", "bgr", "grey")
"""Channels of pixels, in the order that a network takes them."""


def in_channels(pixels: Any, channels: str) -> Any:
    """RGB pixels (..., 3) in another order, or their luma (..., 1) by ITU-R BT.601, as Pillow has it."""
    if channels == "bgr":
        return np.ascontiguousarray(pixels[..., ::-1])
    if channels == "grey":
        red, green, blue = (pixels[..., at].astype("uint32") for at in range(3))
        luma = (19595 * red + 38470 * green + 7471 * blue + 0x8000) >> 16
        return luma.astype("uint8")[..., None]
    return pixels


def cropped(image: Any, side: int) -> Any:
    """(side, side, 3) bytes: the longer side is cropped at both ends, and the square resized."""
    return np.asarray(ImageOps.fit(image, (side, side), BILINEAR))


def stretched(image: Any, side: int) -> Any:
    """(side, side, 3) bytes: the whole image, whatever its shape."""
    return np.asarray(image.resize((side, side), BILINEAR))
