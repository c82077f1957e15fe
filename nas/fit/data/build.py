"""From a source to a stored data set: decode each image once, find equal ones, split, write."""

from __future__ import annotations

import json
import os
import shutil
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import final

import numpy as np
from jaxtyping import Bool, Int8, Int64, UInt8, UInt64
from numpy import ndarray

from edgenas_core.files.atomic_file import naming
from edgenas_core.files.typed_json import write_json
from edgenas_core.types.errors import UserError
from nas.fit.data.decode import (
    Decoded,
    Limits,
    Treatment,
    UndecodableError,
    decode,
    limits_of_all,
    limits_text,
)
from nas.fit.data.faults import (
    check_classes,
    classes_uncovered,
    images_left_out,
    images_of_classes,
    images_repeated,
)
from nas.fit.data.groups import grouped, near_pairs, near_text, shared_groups, thumbnail
from nas.fit.data.mirrors import mirrored_pairs, mirrors_text
from nas.fit.data.names import write_names
from nas.fit.data.pixels import in_channels
from nas.fit.data.source import Encoded, ImageListing, Source
from nas.fit.data.splits import Draw, ImagePart
from nas.fit.data.stored import DESCRIPTION, LABELS, PIXELS, Description

_BATCH = 64  # images that are read and decoded at once, fewer if they are large
_BATCH_BYTES = 2**28
_MOST_THREADS = 8
_BLOCK_BYTES = 2**24  # that are copied at once

_COMPARED_AT = 32
"""Side at which equal images are found: one for all sides, so that these have the same splits."""


def build(
    source: Source,
    side: int,
    draw: Draw,
    on_decoded: Callable[[int, int], object],
    folder: Path,
    *,
    limits: Limits = None,
    channels: str = "rgb",
) -> None:
    """Write a data set into an empty folder.

    Args:
      source: the images.
      side: of the decoded images, pixels.
      draw: how missing splits are drawn.
      on_decoded: called with the numbers of decoded and of all images.
      folder: to write to.
      limits: pixel values of deep images that become 0 and 255; by default the range of the set.
      channels: of the pixels, one of `pixels.CHANNELS`.

    Raises:
      UserError: if the data set cannot be trained on.
      OSError: if it cannot be read or written.
    """
    # List and decode the images, in the range of pixel values that is given or of the set.
    listing = source.listing()
    _require_room(folder, len(listing.labels), side)
    decoded_file = folder / "decoded.bin"
    range_used = limits or limits_of_all(listing.encoded)
    decoded = _decode_all(listing, side, range_used, decoded_file, on_decoded, channels=channels)
    split = _split(listing, decoded, draw)
    generator = np.random.default_rng(draw.seed)
    orders = [generator.permutation(np.flatnonzero(split.parts == part)) for part in ImagePart]
    # Write pixels, labels and names split by split, and their description.
    depth = 1 if channels == "grey" else 3
    content, mean, sd = _write(folder, decoded_file, (side, depth), orders, split.labels)
    write_names(folder, listing.names, decoded.usable, split.groups, np.concatenate(orders))
    counts = tuple(map(len, orders))
    digest = sha256(content + json.dumps([side, counts, listing.classes]).encode())
    deep = decoded.treatments[Treatment.deep]
    description = Description(
        name=source.name,
        title=source.title,
        classes=listing.classes,
        mean=mean,
        sd=sd,
        digest=digest.hexdigest(),
        report=(
            *_first_lines(listing, decoded, split.left_out),
            *limits_text(range_used, deep, is_given=limits is not None),
            *_report(listing, decoded, split, side, is_stratified=draw.is_stratified),
        ),
        limits=range_used,
        side=side,
        has_drawn_splits=bool(split.drawn),
        counts=counts,
        channels=channels,
    )
    write_json(folder / DESCRIPTION, description)


def _report(
    listing: ImageListing, decoded: _Decoded, split: _Split, side: int, *, is_stratified: bool
) -> Iterator[str]:
    """Lines on repeated, uncovered, grouped, mirrored and drawn images, and the number of each class."""
    labels = split.labels
    yield from split.repeated
    if is_stratified:
        yield from classes_uncovered(labels, split.parts, listing.classes)
    yield from split.grouped
    yield from mirrors_text(mirrored_pairs(decoded.thumbnails, labels), listing.classes)
    yield from split.drawn
    yield images_of_classes(labels, split.parts, listing.classes, np.array(decoded.sizes), side)


def _write(
    folder: Path,
    decoded_file: Path,
    shape: tuple[int, int],
    orders: list[Int64[ndarray, "_"]],
    labels: ndarray,
) -> tuple[bytes, tuple[float, ...], tuple[float, ...]]:
    """Write pixels and labels in this order.

    Returns what a digest of the set is made of, and mean and spread of the training images.
    """
    pixels_digest, histogram = _copy(decoded_file, shape, orders, folder / PIXELS)
    decoded_file.unlink()
    ordered = labels[np.concatenate(orders)]
    with naming(folder / LABELS):
        np.save(folder / LABELS, ordered)
    return pixels_digest + ordered.tobytes(), *_moments(histogram)


def _first_lines(listing: ImageListing, decoded: _Decoded, left_out: str) -> Iterator[str]:
    """Sentences on what was left out and on how images were decoded."""
    yield from listing.report
    if left_out:
        yield left_out
    for treatment, count in decoded.treatments.items():
        if treatment is not Treatment.none:
            yield f"images that are {treatment.value}: {count:,}"


@final
@dataclass(frozen=True)
class _Decoded:
    """Decoded images' hashes and conversions, and the files that could not be read."""

    usable: Bool[ndarray, "listed"]
    digests: UInt64[ndarray, "decoded"]  # of the pixels at `_COMPARED_AT`
    thumbnails: UInt8[ndarray, "decoded 16 16"]
    reasons: dict[str, str]  # why an image is left out, by name
    treatments: Counter[Treatment]
    sizes: list[tuple[int, int]]  # width and height of each photo, pixels


@final
@dataclass(frozen=True)
class _Split:
    """Splits of the usable images, and lines on how they came about."""

    labels: Int64[ndarray, "n"]
    parts: Int8[ndarray, "n"]
    groups: Int64[ndarray, "n"]
    left_out: str  # images that cannot be used
    repeated: list[str]  # equal images
    grouped: list[str]
    drawn: list[str]  # splits that the data lack


def _split(listing: ImageListing, decoded: _Decoded, draw: Draw) -> _Split:
    """Draw the missing splits, with equal and grouped images on one side.

    Raises:
      UserError: if there are too few images of a class.
    """
    labels, parts = listing.labels[decoded.usable], listing.parts[decoded.usable]
    left_out = images_left_out(decoded.reasons, len(listing.labels))
    unused = "; ".join(filter(None, (*listing.report, left_out)))
    check_classes(labels, parts, listing.classes, unused, each=draw.is_stratified)
    _, first, inverse = np.unique(decoded.digests, return_index=True, return_inverse=True)
    equal_to = first[inverse]
    groups, told = _groups(listing, decoded, equal_to, parts)
    parts, drawn = draw.missing_splits(labels, parts, groups, listing.classes)
    repeated = [*images_repeated(labels, parts, equal_to)]
    return _Split(labels, parts, groups, left_out, repeated, told, drawn)


def _decode_all(
    listing: ImageListing,
    side: int,
    limits: Limits,
    file: Path,
    on_decoded: Callable[[int, int], object],
    *,
    channels: str,
) -> _Decoded:
    """Decode in threads, which Pillow lets run at once, and write the pixels one after another."""
    count = len(listing.labels)
    usable = np.zeros(count, bool)
    digests = np.zeros(count, np.uint64)
    thumbnails = np.zeros((count, 16, 16), np.uint8)
    reasons: dict[str, str] = {}
    treatments: Counter[Treatment] = Counter()
    sizes: list[tuple[int, int]] = []

    def attempt(image: Encoded) -> tuple[Decoded, UInt8[ndarray, "32 32 3"]] | str:
        try:
            decoded = decode(image, side, limits)
            small = decoded if side == _COMPARED_AT else decode(image, _COMPARED_AT, limits)
        except UndecodableError as error:
            return str(error)
        return decoded, small.pixels

    threads = min(_MOST_THREADS, os.cpu_count() or 1)
    index = 0
    with (
        naming(file),
        file.open("wb") as output,
        ThreadPoolExecutor(threads) as pool,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")  # Pillow's, on files that it repairs
        for batch in _batches(listing.encoded):
            for outcome in pool.map(attempt, batch):
                if listing.labels[index] < 0:
                    reasons[listing.names[index]] = "without a label"
                elif isinstance(outcome, str):
                    reasons[listing.names[index]] = outcome
                else:
                    image, small = outcome
                    digest = sha256(small.tobytes()).digest()
                    output.write(in_channels(image.pixels, channels).tobytes())
                    usable[index] = True
                    digests[index] = int.from_bytes(digest[:8], "little")
                    thumbnails[index] = thumbnail(small)
                    treatments[image.treatment] += 1
                    sizes.append(image.size)
                index += 1
            on_decoded(index, count)
    return _Decoded(usable, digests[usable], thumbnails[usable], reasons, treatments, sizes)


def _groups(
    listing: ImageListing,
    decoded: _Decoded,
    equal_to: Int64[ndarray, "n"],
    parts: Int8[ndarray, "n"],
) -> tuple[Int64[ndarray, "n"], list[str]]:
    """First image of each image's group, which a drawn split keeps together, and lines on the groups.

    A rule of the user replaces the search for images that are nearly equal.
    """
    names = listing.groups
    are_given = all((parts == part).any() for part in ImagePart)
    if names is not None:
        chosen = [name for name, is_usable in zip(names, decoded.usable, strict=True) if is_usable]
        groups = grouped(equal_to, chosen, np.zeros((0, 2), np.int64))
        told = shared_groups(groups, parts, equal_to, "in one group with")
        if not are_given:
            told += [f"images in groups, each in one split: {len(np.unique(groups)):,} groups"]
        return groups, told
    near = near_pairs(decoded.thumbnails) if listing.has_files else np.zeros((0, 2), np.int64)
    groups = grouped(equal_to, None, near)
    told = shared_groups(groups, parts, equal_to, "nearly equal to")
    return groups, told if are_given else told + near_text(equal_to, groups)


def _copy(
    decoded_file: Path, size: tuple[int, int], orders: list[Int64[ndarray, "_"]], file: Path
) -> tuple[bytes, Int64[ndarray, "c 256"]]:
    """Write the pixels in their final order.

    Returns their SHA-256, and how often the training images have each value in each channel.
    """
    side, depth = size
    image_bytes = side * side * depth
    decoded = np.memmap(decoded_file, np.uint8, "r").reshape(-1, side, side, depth)
    step = max(1, _BLOCK_BYTES // image_bytes)
    digest = sha256()
    histogram = np.zeros((depth, 256), np.int64)
    with naming(file), file.open("wb") as output:
        for part, order in zip(ImagePart, orders, strict=True):
            for start in range(0, len(order), step):
                block = decoded[order[start : start + step]]
                output.write(block.data)
                digest.update(block.data)
                if part is ImagePart.train:
                    histogram += _histogram(block)
        output.flush()
        os.fsync(output.fileno())  # before the rename that declares it whole
    return digest.digest(), histogram


def _histogram(block: UInt8[ndarray, "n side side c"]) -> Int64[ndarray, "c 256"]:
    return np.stack(
        [
            np.bincount(block[..., channel].ravel(), minlength=256)
            for channel in range(block.shape[-1])
        ]
    )


def _moments(
    histogram: Int64[ndarray, "c 256"],
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel, as fractions of 255."""
    fractions = np.arange(256) / 255
    shares = histogram / histogram.sum(1, keepdims=True)
    mean = shares @ fractions
    sd = np.sqrt((shares * (fractions - mean[:, None]) ** 2).sum(1))
    return tuple(mean.tolist()), tuple(sd.tolist())


def _require_room(folder: Path, count: int, side: int) -> None:
    needed = 2 * count * side * side * 3  # decoded in their order, then in the final one
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise UserError(
            f"{count:,} images of {side} x {side} pixels need {needed / 1e9:.1f} GB in "
            f"{folder.parent}, which has {free / 1e9:.1f} GB left; free some, or name another "
            f"folder by the environment variable XDG_CACHE_HOME"
        )


def _batches(images: Iterable[Encoded]) -> Iterator[list[Encoded]]:
    batch: list[Encoded] = []
    nbytes = 0
    for image in images:
        batch.append(image)
        nbytes += len(image) if isinstance(image, bytes) else 0
        if len(batch) == _BATCH or nbytes > _BATCH_BYTES:
            yield batch
            batch, nbytes = [], 0
    if batch:
        yield batch
