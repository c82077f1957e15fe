"""A decoded data set on disk: pixels as one raw file that is mapped into memory, labels, a description.

The folder of a set is renamed into place when it is complete, so that what exists is whole. Its
name holds a digest of everything that decides its content.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import final

import numpy as np

from edgenas_core.files.file_lock import held
from edgenas_core.files.safe_file import load_array
from edgenas_core.files.typed_json import read_json
from edgenas_core.types.errors import UserError
from nas.fit.data.decode import Limits
from nas.fit.data.image_set import Images, ImageSet

PIXELS, LABELS, DESCRIPTION = "pixels.bin", "labels.npy", "images.json"


@final
@dataclass(frozen=True)
class Description:
    """`images.json`: an `ImageSet` without its arrays, and their sizes."""

    name: str
    title: str
    classes: tuple[str, ...]
    mean: tuple[float, ...]
    sd: tuple[float, ...]
    digest: str
    report: tuple[str, ...]
    limits: Limits
    side: int
    has_drawn_splits: bool
    counts: tuple[int, ...]  # of training, validation and test images, in the order of the pixels
    channels: str = "rgb"  # of the pixels


def stored(folder: Path, build: Callable[[Path], None]) -> ImageSet:
    """Open the set in `folder`; where there is none, `build` fills a new folder first.

    A second process that asks for the same set waits for the first.

    Raises:
      OSError: if it cannot be written; nothing of it is left.
    """
    images = _opened(folder)
    if images is not None:
        return images
    folder.parent.mkdir(parents=True, exist_ok=True)
    lock = folder.with_name(f"{folder.name}.lock")
    lock.touch()
    with held(lock, wait=True):
        images = _opened(folder)
        if images is None:
            _fill(folder, build)
            images = _opened(folder)
    if images is None:
        raise OSError(f"{folder} was changed while it was written")
    return images


def _fill(folder: Path, build: Callable[[Path], None]) -> None:
    temporary = folder.with_name(f"{folder.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)  # of a process that was killed
    shutil.rmtree(folder, ignore_errors=True)  # damaged
    temporary.mkdir()
    try:
        build(temporary)
        temporary.rename(folder)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _opened(folder: Path) -> ImageSet | None:
    """The set in a folder; None if there is none, or it is damaged."""
    try:
        about = vars(read_json(folder / DESCRIPTION, Description))
        labels = load_array(folder / LABELS)
        side, ends = about.pop("side"), np.cumsum((0, *about.pop("counts"))).tolist()
        pixels = np.memmap(folder / PIXELS, np.uint8, "r").reshape(
            -1, side, side, len(about["mean"])
        )
    except (FileNotFoundError, UserError, ValueError):
        return None
    if not len(pixels) == len(labels) == ends[-1]:
        return None
    train, valid, test = (
        Images(pixels[first:end], labels[first:end]) for first, end in pairwise(ends)
    )
    return ImageSet(train=train, valid=valid, test=test, **about)
