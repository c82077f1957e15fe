"""Names of the files of a stored data set, and the groups that its splits keep together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
from jaxtyping import Bool, Int64
from numpy import ndarray

from edgenas_core.files.typed_json import read_json, write_json
from nas.fit.data.image_set import ImageSet

NAMES = "names.json"


@final
@dataclass(frozen=True)
class Names:
    """Name and group of each image: of the training, then the validation, then the test images."""

    files: tuple[str, ...]  # relative to the data set
    groups: tuple[int, ...]  # images of one number are copies, frames of a clip, or of one rule


def write_names(
    folder: Path,
    listed: Sequence[str],
    usable: Bool[ndarray, "listed"],
    groups: Int64[ndarray, "usable"],
    order: Int64[ndarray, "usable"],
) -> None:
    """Write the names of the images that are used, in the order of their pixels."""
    used = [name for name, is_usable in zip(listed, usable, strict=True) if is_usable]
    files = tuple(used[at] for at in order.tolist())
    write_json(folder / NAMES, Names(files, tuple(groups[order].tolist())))


def names_of(images: ImageSet) -> Names | None:
    """The names of a set; None where it is not stored, or by an earlier version."""
    pixels = images.train.pixels
    if not isinstance(pixels, np.memmap) or pixels.filename is None:
        return None
    try:
        names = read_json(Path(str(pixels.filename)).parent / NAMES, Names)
    except (OSError, ValueError):
        return None
    count = len(images.train) + len(images.valid) + len(images.test)
    return names if len(names.files) == len(names.groups) == count else None
