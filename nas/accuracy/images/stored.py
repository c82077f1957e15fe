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
from numpy import ndarray

from common.files.file_lock import held
from common.files.safe_arrays import load_array
from common.files.typed_json import read_json
from common.types.errors import UserError
from nas.accuracy.images.image_set import CHANNELS, Images, ImageSet

PIXELS, LABELS, DESCRIPTION = "pixels.bin", "labels.npy", "images.json"


@final
@dataclass(frozen=True)
class Description:
    """`images.json`: an `ImageSet` without its arrays."""

    name: str
    title: str
    classes: tuple[str, ...]
    side: int
    counts: tuple[int, ...]  # of training, validation and test images, in the order of the pixels
    mean: tuple[float, ...]
    sd: tuple[float, ...]
    digest: str
    report: tuple[str, ...]


def stored(folder: Path, build: Callable[[Path], None]) -> ImageSet:
    """Open the set in `folder`; where there is none, `build` fills a new folder first.

    A second process that asks for the same set waits for the first.

    Raises:
      OSError: if it cannot be written; nothing of it is left.
    """
    found = _opened(folder)
    if found is not None:
        return found
    folder.parent.mkdir(parents=True, exist_ok=True)
    lock = folder.with_name(f"{folder.name}.lock")
    lock.touch()
    with held(lock, wait=True):
        found = _opened(folder)
        if found is None:
            _fill(folder, build)
            found = _opened(folder)
    if found is None:
        raise OSError(f"{folder} was changed while it was written")
    return found


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


def _are_labels(labels: ndarray, classes: int) -> bool:
    return (
        labels.ndim == 1
        and labels.dtype == np.int64
        and bool(((labels >= 0) & (labels < classes)).all())
    )


def _opened(folder: Path) -> ImageSet | None:
    """The set in a folder; None if there is none, or it is damaged."""
    try:
        about = read_json(folder / DESCRIPTION, Description)
        labels = load_array(folder / LABELS)
        shape = (len(labels), about.side, about.side, CHANNELS)
        if (folder / PIXELS).stat().st_size != np.prod(shape, dtype=np.int64):
            return None
        if sum(about.counts) != len(labels) or not _are_labels(labels, len(about.classes)):
            return None
        pixels = np.memmap(folder / PIXELS, np.uint8, "r", shape=shape)
    except (FileNotFoundError, UserError, ValueError):
        return None
    train, valid, test = (
        Images(pixels[first:end], labels[first:end])
        for first, end in pairwise(np.cumsum((0, *about.counts)).tolist())
    )
    return ImageSet(
        about.name,
        about.title,
        about.classes,
        train,
        valid,
        test,
        about.mean,
        about.sd,
        about.digest,
        about.report,
    )
