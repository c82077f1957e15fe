"""Small pictures in a page."""

from __future__ import annotations

import io
from base64 import b64encode
from typing import Any

import numpy as np
from PIL import Image

PIXELS = 96
"""Longest side of a picture on the page."""


def picture_address(pixels: Any) -> str:
    """A small JPEG in the address of an image."""
    image = Image.fromarray(np.asarray(pixels).squeeze())
    image.thumbnail((PIXELS, PIXELS))
    file = io.BytesIO()
    image.save(file, "JPEG", quality=80)
    return f"data:image/jpeg;base64,{b64encode(file.getvalue()).decode()}"
