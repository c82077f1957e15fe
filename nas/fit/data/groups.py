"""Groups of images that a drawn split keeps together: by a rule, or because images are nearly equal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np
from jaxtyping import Float32, Int8, Int64, UInt8
from numpy import ndarray

from edgenas_core.types.errors import UserError, not_one_of
from nas.fit.data.pixels import CHANNELS
from nas.fit.data.splits import ImagePart

NONE = "none"
"""Rule by which each image is a group of its own."""

_CELLS = 16
"""Side of the grey thumbnails that are compared."""

_ALIKE = 0.97
"""Correlation of two thumbnails, without what all images share, from which images are nearly equal."""

_FLATTEST = 2.0
"""Standard deviation, in grey levels, below which a thumbnail shows too little to be compared."""

_MOST_COMPARED, _WINDOW, _ROWS = 20_000, 256, 1024
"""Images that are all compared with each other; of more, each with so many of its neighbours by name."""


@final
@dataclass(frozen=True)
class GroupRule:
    """A rule for the groups of images: a folder level, counted from 1, a pattern, or a column."""

    text: str

    def of_paths(self, paths: Sequence[str]) -> list[str]:
        """Name of each image's group; its own path where the pattern does not occur.

        Raises:
          UserError: if the rule is no level that all paths have, or no valid pattern.
        """
        parts = [path.replace("\\", "/").split("/") for path in paths]
        if self.text == NONE:
            return [*paths]
        if self.text.isdecimal():
            level = int(self.text)
            if not 1 <= level < min(map(len, parts), default=1):
                raise UserError(
                    f"groups={self.text}: a folder level is 1 to {min(map(len, parts), default=1) - 1}, that of "
                    f"{paths[0] if paths else 'no image'}"
                )
            return ["/".join(each[:level]) for each in parts]
        try:
            pattern = re.compile(self.text)
        except re.error as error:
            raise UserError(
                f"groups={self.text} is no folder level (1, 2, ...), no column and no pattern: {error}"
            ) from error
        found = [pattern.search(path) for path in paths]
        if not any(found):
            raise UserError(f"groups={self.text} occurs in no path such as {paths[0]}")
        return [
            path if match is None else match[match.lastindex or 0]
            for path, match in zip(paths, found, strict=True)
        ]


Scaling: TypeAlias = tuple[tuple[float, ...], tuple[float, ...]]
"""Mean and standard deviation of each channel, fractions of 255."""


def scaling_text(scaling: Scaling) -> str:
    """Means and standard deviations, as `scaling_of` reads them."""
    return ";".join(",".join(map(str, each)) for each in scaling)


def scaling_of(text: str) -> Scaling:
    """Read what `scaling_text` wrote."""
    mean, sd = (tuple(map(float, each.split(","))) for each in text.split(";"))
    return mean, sd


@final
@dataclass(frozen=True)
class DataOptions:
    """`data=` and what it names, which runs store as one text.

    PATH?groups=RULE?range=LOW:HIGH?channels=rgb|bgr|grey?scaling=MEANS;DEVIATIONS?mirror=no.
    """

    data: str
    groups: GroupRule | None = None
    limits: tuple[float, float] | None = None  # pixel values of deep images that become 0 and 255
    text: str = ""  # of the options
    mirrors: bool = True  # whether half of the scenes to train on are mirrored
    channels: str = "rgb"  # in the order that networks take them, one of `pixels.CHANNELS`
    scaling: Scaling | None = None  # of scenes; None: ImageNet's

    @classmethod
    def of(cls, text: str) -> DataOptions:
        """Read the setting.

        Raises:
          UserError: if the range is none.
        """
        match = re.fullmatch(
            r"(.*?)((?:\?groups=(.+?))?(?:\?range=([^?:]*:[^?:]*))?(?:\?channels=(rgb|bgr|grey))?"
            r"(?:\?scaling=([-\d.e,]+;[-\d.e,]+))?(\?mirror=no)?)",
            text,
            re.DOTALL,
        )
        if match is None:
            return cls(text)
        data, options, rule, limits, channels, scaling, unmirrored = match.groups()
        numbers = None
        if limits is not None:
            try:
                low, high = map(float, limits.split(":"))
            except ValueError:
                low = high = 0.0
            if not low < high:
                raise UserError(f"range={limits} is not LOW:HIGH, such as 0:4095")
            numbers = (low, high)
        groups = None if rule is None else GroupRule(rule)
        scaled = None if scaling is None else scaling_of(scaling)
        return cls(data, groups, numbers, options, unmirrored is None, channels or "rgb", scaled)

    @classmethod
    def joined(
        cls,
        data: str,
        groups: str | None,
        limits: str | None,
        channels: str | None = None,
        scaling: Scaling | None = None,
        *,
        mirrors: bool,
    ) -> str:
        """The text of the settings; they replace what `data` says of the same.

        Raises:
          UserError: if the range is none, or there are no such channels.
        """
        before = cls.of(data)
        if limits is None and before.limits is not None:
            limits = "{:g}:{:g}".format(*before.limits)
        if groups is None and before.groups is not None:
            groups = before.groups.text
        text = before.data
        text += "" if groups is None else f"?groups={groups}"
        text += "" if limits is None else f"?range={limits}"
        channels = channels or before.channels
        if channels not in CHANNELS:
            raise not_one_of("channels", channels, CHANNELS)
        text += "" if channels == "rgb" else f"?channels={channels}"
        scaling = scaling or before.scaling
        text += "" if scaling is None else f"?scaling={scaling_text(scaling)}"
        text += "" if mirrors and before.mirrors else "?mirror=no"
        if limits is not None and cls.of(text).limits is None:
            raise UserError(f"range={limits} is not LOW:HIGH, such as 0:4095")
        return text


def grouped(
    equal_to: Int64[ndarray, "n"], names: Sequence[str] | None, near: Int64[ndarray, "pairs 2"]
) -> Int64[ndarray, "n"]:
    """First image of each image's group: of equal, nearly equal, and by a rule equally named ones."""
    from scipy.sparse import coo_array  # noqa: PLC0415 - slow to import
    from scipy.sparse.csgraph import connected_components  # noqa: PLC0415 - loaded when needed

    count = len(equal_to)
    edges = [np.stack([np.arange(count), equal_to], 1), near]
    if names is not None:
        _, first, number = np.unique(np.array(names), return_index=True, return_inverse=True)
        edges.append(np.stack([np.arange(count), first[number]], 1))
    a, b = np.concatenate(edges).T
    graph = coo_array((np.ones(len(a), np.int8), (a, b)), (count, count))
    _, component = connected_components(graph, directed=False)
    _, first, number = np.unique(component, return_index=True, return_inverse=True)
    return np.asarray(first[number], np.int64)


def near_text(equal_to: Int64[ndarray, "n"], groups: Int64[ndarray, "n"]) -> list[str]:
    """Line on images that are nearly equal; none if there are none beside equal ones."""
    sizes = np.bincount(groups, minlength=len(groups))
    if len(np.unique(groups)) == len(np.unique(equal_to)):
        return []
    together = int(sizes[sizes > 1].sum())
    line = (
        f"nearly equal images (copies, frames of a clip), which stay in one split: {together:,} of "
        f"{len(groups):,}, in {int((sizes > 1).sum()):,} groups (another rule: groups= of nas.fit)"
    )
    return [line]


def shared_groups(
    groups: Int64[ndarray, "n"],
    parts: Int8[ndarray, "n"],
    equal_to: Int64[ndarray, "n"],
    words: str,
) -> list[str]:
    """Line on images that given splits separate from others of their group; none without any.

    Equal images, which are counted apart, do not count.
    """
    _, own = np.unique(groups, return_inverse=True)
    _, group_of_equal = np.unique(equal_to, return_inverse=True)
    lines = []
    for part, other in ((ImagePart.valid, ImagePart.train), (ImagePart.test, ImagePart.train)):
        inside = parts == part
        is_shared = np.isin(own, own[parts == other]) & ~np.isin(
            group_of_equal, group_of_equal[parts == other]
        )
        if count := int((inside & is_shared).sum()):
            lines.append(
                f"warning: {part.words} images that are {words} {other.words} images: {count:,} of "
                f"{int(inside.sum()):,}, so that {part.words} numbers may be too good"
            )
    return lines


def thumbnail(pixels: UInt8[ndarray, "side side 3"]) -> UInt8[ndarray, "16 16"]:
    """A grey thumbnail: means of cells of an image whose side is a multiple of 16."""
    cell = pixels.shape[0] // _CELLS
    blocks = pixels.reshape(_CELLS, cell, _CELLS, cell, 3)
    return np.asarray(blocks.mean((1, 3, 4)), np.uint8)


def near_pairs(thumbnails: UInt8[ndarray, "n 16 16"]) -> Int64[ndarray, "pairs 2"]:
    """Pairs of images that are nearly equal: resized, recompressed, mirrored copies, frames of a clip.

    Thumbnails are compared by their correlation, without the mean image of the set, which a fixed camera
    shows in every one, and without what is too flat to be told apart.
    """
    if len(thumbnails) < 2:
        return np.zeros((0, 2), np.int64)
    straight = _standardised(thumbnails.astype(np.float32) - thumbnails.mean(0, dtype=np.float32))
    flipped = thumbnails[:, :, ::-1]
    mirrored = _standardised(flipped.astype(np.float32) - thumbnails.mean(0, dtype=np.float32))
    pairs = []
    is_all = len(thumbnails) <= _MOST_COMPARED
    for start in range(0, len(thumbnails), _ROWS):
        end = len(thumbnails) if is_all else min(len(thumbnails), start + _ROWS + _WINDOW)
        rows = straight[start : start + _ROWS]
        for others in (straight[start:end], mirrored[start:end]):
            a, b = np.nonzero(np.triu(rows @ others.T > _ALIKE, 1))
            pairs.append(np.stack([a + start, b + start], 1))
    return np.concatenate(pairs).astype(np.int64)


def _standardised(images: Float32[ndarray, "n 16 16"]) -> Float32[ndarray, "n 256"]:
    flat = images.reshape(len(images), -1)
    flat = flat - flat.mean(1, keepdims=True)
    sd = flat.std(1, keepdims=True)
    scaled = np.where(sd < _FLATTEST, 0, flat / np.maximum(sd, 1e-6) / np.sqrt(flat.shape[1]))
    return np.asarray(scaled, np.float32)
