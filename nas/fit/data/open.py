"""`data=`: the user's images, from whatever they are kept in."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from pathlib import Path

import platformdirs

from edgenas_core.types.errors import UserError
from nas.fit.data.build import build
from nas.fit.data.class_folders import IMAGE_SUFFIXES, SPLITS, ClassFolders, few
from nas.fit.data.groups import DataOptions, GroupRule
from nas.fit.data.image_set import ImageSet, Target
from nas.fit.data.listed import TABLES, ListedImages
from nas.fit.data.parquet import ParquetImages
from nas.fit.data.rows import files_below
from nas.fit.data.source import Digits, Source
from nas.fit.data.splits import Draw
from nas.fit.data.stored import stored
from nas.fit.data.tars import TarImages

DEFAULT_SIDE = 32
"""Pixels; the side that the bundled latency tables are for."""

DEFAULT_SHARE = 0.1
"""Share of the training images that each missing split is drawn with."""

SPLIT_SEED = 0
"""Seed of drawn splits: one for all, so that searches with any seed=, at any side, keep the same test images."""

_SIDES = range(4, 513)
_VERSION = 6  # of the stored sets; a change of decoding makes a new one
_KINDS = (
    "a folder of class folders, a .csv file of file names and labels, .parquet or .tar files (webdataset) or a folder of "
    "them, or digits"
)


def open_images(
    data: str,
    *,
    side: int | None = None,
    seed: int = SPLIT_SEED,
    share: float = DEFAULT_SHARE,
    target: Target = Target.classification,
    least: int = 1,
    cache: Path | None = None,
    on_decoded: Callable[[int, int], object] | None = None,
) -> ImageSet:
    """Open a data set; its images are square, RGB and `side` pixels wide.

    The first time, each image is decoded into the cache. From then on, opening takes milliseconds
    and the images are read as they are used, so that they may be more than the memory holds.

    Args:
      data: a folder of class folders, Parquet or tar files, a table of file names and labels, or `digits`, perhaps
        with options: ?groups=..., ?range=...
      side: height and width in pixels, 32 by default.
      seed: of the validation and test images that are drawn where the data set has none, and of the
        order of the images.
      share: fraction of the training images that each missing split is drawn with, of each class
        for classification.
      target: what is learnt of the names of the classes.
      least: images of each class that each missing split is drawn with, at least.
      cache: folder of the decoded images; that of the user's caches by default.
      on_decoded: called with the numbers of decoded and of all images while they are decoded; by
        default a terminal shows them.

    Raises:
      UserError: if there is no such data set, or it cannot be trained on.
      OSError: if it cannot be read, or the cache not be written.
    """
    chosen = DEFAULT_SIDE if side is None else side
    if chosen not in _SIDES:
        raise UserError(f"side={side} must be {_SIDES.start} to {_SIDES.stop - 1} pixels")
    options = DataOptions.of(data)
    source = source_of(options, target)
    is_stratified = target is Target.classification
    decides = [_VERSION, source.key(), options.text, chosen, seed, share, is_stratified, least]
    digest = sha256(json.dumps(decides).encode()).hexdigest()[:16]
    folder = (cache or Path(platformdirs.user_cache_dir("edgenas")) / "images").absolute()
    draw = Draw(share, seed, is_stratified, least)
    return stored(
        folder / f"{source.name}-{chosen}px-{digest}",
        partial(
            build,
            source,
            chosen,
            draw,
            on_decoded or _show,
            limits=options.limits,
            channels=options.channels,
        ),
    ).learnt_as(target)


def _show(done: int, count: int) -> None:
    """Write over the line of a terminal; many images take minutes."""
    if sys.stderr.isatty():
        end = "\n" if done == count else ""
        sys.stderr.write(f"\rdecoding images, once: {done:,} of {count:,}{end}")
        sys.stderr.flush()


def source_of(options: DataOptions, target: Target) -> Source:
    """What lists the images of `data=`, and labels them.

    Raises:
      UserError: if there is no such data set.
    """
    data, groups = options.data, options.groups
    if data == Digits.name:
        return Digits()
    path = Path(data).expanduser()
    are_values = target is Target.regression
    if data and path.is_dir():
        return _of_folder(path, groups, are_values=are_values)
    if not path.is_file():
        raise UserError(f"data={data}: there is no such file or folder; choose {_KINDS}")
    ending = path.suffix.lower()
    if ending == ".parquet":
        return ParquetImages(path, groups, are_values=are_values)
    if ending == ".tar":
        return TarImages(path, groups, are_values=are_values)
    if ending in TABLES:
        return ListedImages(path, groups, are_values=are_values)
    if ending in {".zip", ".tgz", ".gz", ".7z", ".rar"}:
        raise UserError(f"data={data} is packed; unpack it, and name its folder")
    raise UserError(f"data={data} is none of these: {_KINDS}")


def _of_folder(path: Path, groups: GroupRule | None, *, are_values: bool) -> Source:
    """What a folder holds: class folders, shards, or images that a table labels.

    Raises:
      UserError: if class folders and a table contradict each other, or the only table cannot be read.
    """
    within = [each for each in path.iterdir() if each.name.casefold() in {*SPLITS, "data"}]
    places = [path, *(each for each in within if each.is_dir())]
    endings = {file.suffix.lower() for place in places for file in place.iterdir()}
    if endings & {".parquet", ".tar"} and not files_below(path, *IMAGE_SUFFIXES):
        kind = ParquetImages if ".parquet" in endings else TarImages
        return kind(path, groups, are_values=are_values)
    folders = ClassFolders(path, groups)
    listed = ListedImages(path, groups, are_values=are_values)
    if not endings & {*TABLES} or not (listed.tables or listed.unreadable):
        return folders
    try:
        of_folders = folders.listing()
    except UserError:
        of_folders = None
    if of_folders is None or len(of_folders.classes) < 2:
        if not listed.tables:  # nothing else says what the images show
            raise UserError(f"data={path}: {listed.unreadable[0]}; save it as CSV in UTF-8")
        return listed
    if not listed.tables:
        return folders
    classes = {*of_folders.classes}
    table = listed.tables[0]
    try:
        other = listed.listing()
    except UserError:
        return folders  # a table of something else, which is told as left out
    labels = {*other.classes}
    if not labels <= classes and 2 * len(other.labels) >= len(of_folders.labels):
        raise UserError(
            f"data={path} has folders of images ({few(sorted(classes))}) and other labels in {table.name} "
            f"({few(sorted(labels))}); name data={table} for its labels, or move it elsewhere"
        )
    return folders
