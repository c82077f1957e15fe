"""How a photo becomes a network's input: crop, channels, mean and standard deviation, axes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

import numpy as np
from jaxtyping import Float32
from numpy import ndarray
from PIL import ImageOps

from edgenas_core.files.safe_file import read_text
from edgenas_core.types.errors import UserError
from nas.check.network_file import InputForm
from nas.fit.data.pixels import BILINEAR

Colour = tuple[float, ...]
_ZERO, _HALF = (0.0,) * 3, (0.5,) * 3
_SCALES: dict[str, tuple[Colour, Colour]] = {
    "0 to 1": (_ZERO, (1.0,) * 3),
    "-1 to 1": (_HALF, _HALF),
    "ImageNet's mean and deviation": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "0 to 255": (_ZERO, (1 / 255,) * 3),
    "0 to 255 less ImageNet's mean": ((0.4851, 0.4580, 0.4076), (1 / 255,) * 3),
}
_CROPS = {
    "crop": "cropped to a square",
    "stretch": "stretched to a square",
    "letterbox": "whole, with grey borders",
    "centre": "seven eighths of its middle",
}


@final
@dataclass(frozen=True)
class Preparation:
    """Steps between a photo and a network."""

    mean: Colour = _ZERO  # fractions of 255
    sd: Colour = (1.0,) * 3
    crop: str = "crop"
    through: int = 0  # side of the crop, which is then resized; 0: that of the network
    is_bgr: bool = False
    axes: str = "as they are"  # or "height and width swapped", "read in another order"

    def __call__(self, photo: Any, form: InputForm) -> Float32[ndarray, "1 3 h w"]:
        """An upright RGB photo, prepared."""
        height = form.height or self.through or 224
        width = form.width or self.through or 224
        if form.channels == 1:
            photo = photo.convert("L").convert("RGB")
        pixels = np.asarray(self._shaped(photo, (width, height)), np.float32)
        pixels = pixels[..., ::-1] if self.is_bgr else pixels
        mean, sd = (np.array(each, np.float32) * np.float32(255) for each in (self.mean, self.sd))
        image = (pixels - mean) / sd
        if self.axes == "read in another order":
            return np.ascontiguousarray(image).reshape(1, 3, height, width)
        image = image.transpose(2, 0, 1)
        if self.axes == "height and width swapped" and height == width:
            image = image.transpose(0, 2, 1)
        return np.ascontiguousarray(image)[None]

    def _shaped(self, photo: Any, size: tuple[int, int]) -> Any:
        """The photo in this (width, height)."""
        if self.crop == "stretch":
            return photo.resize(size, BILINEAR)
        if self.crop == "letterbox":
            return ImageOps.pad(photo, size, BILINEAR, color=(114, 114, 114))
        if self.crop == "centre":
            return ImageOps.fit(photo, size, BILINEAR, bleed=1 / 16)
        square = (self.through, self.through) if self.through else size
        fitted = ImageOps.fit(photo, square, BILINEAR)
        return fitted if square == size else fitted.resize(size, BILINEAR)

    def others(self) -> Iterator[tuple[str, str, Preparation]]:
        """Kind of fault, words, and the preparation that is right if it is one; each changes one step."""
        scales = dict(_SCALES)
        scales["no mean"] = (_ZERO, self.sd)
        scales["no standard deviation"] = (self.mean, (1.0,) * 3)
        for words, (mean, sd) in scales.items():
            if not np.allclose([*mean, *sd], [*self.mean, *self.sd], rtol=2e-3):
                yield "mean", f"values as {words}", replace(self, mean=mean, sd=sd)
        channels = "RGB" if self.is_bgr else "BGR"
        yield "BGR", f"channels as {channels}", replace(self, is_bgr=not self.is_bgr)
        for crop, words in _CROPS.items():
            if crop != self.crop:
                yield "crop", f"the photo {words}", replace(self, crop=crop, through=0)
        for axes in ("height and width swapped", "read in another order"):
            if axes != self.axes:
                yield "axes", f"axes {axes}", replace(self, axes=axes)

    @classmethod
    def beside(cls, file: Path) -> tuple[Preparation, tuple[str, ...]] | None:
        """What `preparation.json` beside a file says, and its classes; None without one.

        Raises:
          UserError: if it is no such file.
        """
        path = file.parent / "preprocessing.json"
        if not path.is_file():
            return None
        try:
            about = json.loads(read_text(path))
            mean, sd = (tuple(map(float, about[name])) for name in ("mean", "sd"))
            mean, sd = (3 * each if len(each) == 1 else each for each in (mean, sd))  # of grey
            through, crop = int(about.get("cropped_to", 0)), str(about.get("crop", "crop"))
            is_bgr = about.get("channels", "RGB") == "BGR"
            classes = tuple(map(str, about.get("classes", ())))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise UserError(f"{path} says not how photos are prepared: {error!r}") from error
        if len(mean) != 3 or len(sd) != 3 or not all(each > 0 for each in sd):
            raise UserError(f"{path}: mean and sd are three numbers each, those of sd above 0")
        if not 0 <= through <= 4096 or crop not in _CROPS:
            names = ", ".join(_CROPS)
            raise UserError(f"{path}: cropped_to is 4096 at most, and crop is one of {names}")
        return cls(mean, sd, crop, through, is_bgr), classes

    @classmethod
    def usual(cls, *forms: InputForm) -> list[Preparation]:
        """The usual ones, to choose from where nothing says which it is; those that fill the range of whole numbers."""
        usual = [cls(mean, sd) for mean, sd in _SCALES.values()]
        for low, high in filter(None, (form.range for form in forms)):
            fitting = [
                each
                for each in usual
                if abs(-each.mean[0] / each.sd[0] - low) < 0.1 * (high - low)
                and abs((1 - each.mean[0]) / each.sd[0] - high) < 0.1 * (high - low)
            ]
            usual = fitting or usual
        return usual

    @property
    def words(self) -> str:
        """The steps, for readers."""
        known = (name for name, pair in _SCALES.items() if pair == (self.mean, self.sd))
        own = f"mean {_short(self.mean)}, deviation {_short(self.sd)}"
        channels = "BGR" if self.is_bgr else "RGB"
        return f"{_CROPS[self.crop]}, {channels}, {next(known, own)}"


def _short(numbers: Colour) -> str:
    return "/".join(f"{each:.3g}" for each in numbers)
