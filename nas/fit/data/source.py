"""Sources of the images of a data set: the protocol, and scikit-learn's digits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias, final, runtime_checkable

import numpy as np
from jaxtyping import Int8, Int64, UInt8
from numpy import ndarray

from nas.fit.data.splits import ImagePart

Encoded: TypeAlias = "Path | bytes | UInt8[ndarray, 'height width 3']"
"""A file, the content of a file, or pixels."""


@final
@dataclass(frozen=True)
class ImageListing:
    """Images of a data set before they are decoded, one row an image."""

    classes: tuple[str, ...]
    labels: Int64[ndarray, "n"]  # numbers of the classes; -1: the data set does not say
    parts: Int8[ndarray, "n"]  # values of `splits.Part`
    names: Sequence[str]  # how a message names each image
    encoded: Iterable[
        Encoded
    ]  # each image in turn, read as it is iterated over, any number of times
    report: tuple[str, ...] = ()  # lines for the user
    groups: Sequence[str] | None = None  # name of each image's group by a rule; None: near copies
    has_files: bool = True  # photos, among which copies are looked for


@runtime_checkable
class Source(Protocol):
    """A data set that can be listed and read."""

    @property
    def name(self) -> str:
        """Short name, safe in file names and table columns."""

    @property
    def title(self) -> str:
        """Name as a page writes it."""

    def key(self) -> str:
        """Text that changes when an image does; nothing is decoded for it.

        Raises:
          OSError: if the data set cannot be read.
        """

    def listing(self) -> ImageListing:
        """Find the images.

        Raises:
          UserError: if the data set has none, or is malformed.
          OSError: if it cannot be read.
        """


@final
class Digits:
    """scikit-learn's handwritten digits: 1,797 grey images of 8 x 8 pixels (Alpaydin & Kaynak, 1998)."""

    name = "digits"
    title = "Digits"

    def key(self) -> str:
        """Name: the images never change."""
        return self.name

    def listing(self) -> ImageListing:
        """Load the images."""
        from sklearn.datasets import load_digits  # noqa: PLC0415 - slow to import

        digits = load_digits()
        grey = np.rint(digits.images * (255 / 16)).astype(np.uint8)
        return ImageListing(
            tuple(map(str, digits.target_names)),
            digits.target.astype(np.int64),
            np.full(len(grey), ImagePart.train, np.int8),
            [f"digit {number}" for number in range(len(grey))],
            grey[..., None].repeat(3, -1),
            has_files=False,
        )


def safe_name(text: str) -> str:
    """Letters, digits and underscores of a file's name."""
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")[:40] or "images"


def stamp(path: Path) -> str:
    """Path, size and times of a file, which change when its content does.

    Raises:
      OSError: if there is no such file.
    """
    status = path.stat()
    return f"{path.absolute()} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"
