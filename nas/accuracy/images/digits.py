"""scikit-learn's handwritten digits: 1,797 grey images of 8 x 8 pixels (Alpaydin & Kaynak, 1998)."""

from __future__ import annotations

from typing import final

import numpy as np

from nas.accuracy.images.image_set import CHANNELS
from nas.accuracy.images.source import Listing
from nas.accuracy.images.splits import Part

_WHITE = 16  # the largest value of a pixel


@final
class Digits:
    """The data set that needs no file."""

    name = "digits"
    title = "Digits"

    def key(self) -> str:
        """Name: the images never change."""
        return self.name

    def listing(self) -> Listing:
        """Load the images."""
        from sklearn.datasets import load_digits  # noqa: PLC0415 - slow to import

        found = load_digits()
        grey = np.rint(found.images * (255 / _WHITE)).astype(np.uint8)
        return Listing(
            tuple(map(str, found.target_names)),
            found.target.astype(np.int64),
            np.full(len(grey), Part.train, np.int8),
            [f"digit {number}" for number in range(len(grey))],
            grey[..., None].repeat(CHANNELS, -1),
        )
