"""Images of several objects: a folder of files, resized to one side and split by a seed."""

from __future__ import annotations

import colorsys
import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import TypeAlias, final

import numpy as np
import torch
from jaxtyping import Float, Int8, Int64, UInt8
from numpy import ndarray
from PIL import Image, ImageOps
from torch import Tensor

from edgenas_core.files.safe_file import read_text
from edgenas_core.types.errors import UserError
from edgenas_core.types.printable import printable
from nas.fit.data.class_folders import IMAGE_SUFFIXES, is_hidden
from nas.fit.data.decode import (
    Decoded,
    Limits,
    Treatment,
    UndecodableError,
    decode,
    limits_of_all,
    limits_text,
)
from nas.fit.data.faults import images_left_out, images_repeated
from nas.fit.data.groups import (
    DataOptions,
    Scaling,
    grouped,
    near_pairs,
    near_text,
    shared_groups,
    thumbnail,
)
from nas.fit.data.pixels import FORMATS, MOST_PIXELS, in_channels, stretched
from nas.fit.data.source import safe_name
from nas.fit.data.splits import ImagePart, taken
from nas.fit.learners.base import LearnerDescription, LearnerPicture

MEAN, SD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of ImageNet's training images, which torchvision's weights are for."""

Augment: TypeAlias = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""Changes images and their targets at random."""

SIDE, BATCH, MANY = 128, 32, 2000
"""Pixels that images are resized to by default; images of a batch, twice as many where a split has more than many."""

SPLIT_SEED = 0
"""Seed of the splits: one for all, so that any training keeps the same test images."""

SHARE = 0.1
"""Share of the images that is kept for validation, and for the test."""

_RESAMPLES = 200

_MOST_BYTES = 8 * 2**30
"""Of all pixels, which are held in memory."""

_MOST_OF_GPU = 0.25
"""Share of a GPU's free memory that scenes may take."""


@final
@dataclass(frozen=True)
class ScenePixels:
    """Decoded images, without those that cannot be read."""

    files: tuple[Path, ...]
    sizes: tuple[tuple[int, int], ...]  # width and height of each file
    pixels: UInt8[Tensor, "n side side c"]
    usable: tuple[int, ...]  # positions of these images among all
    limits: Limits  # pixel values of images of more than 8 bits that became 0 and 255
    report: tuple[str, ...]

    @classmethod
    def of(cls, files: Sequence[Path], side: int, named: str) -> ScenePixels:
        """Read the files.

        Raises:
          UserError: if there are too few images or too many.
        """
        if len(files) * side**2 * 3 > _MOST_BYTES:
            raise UserError(
                f"data={named}: {len(files):,} images of {side} pixels do not fit into "
                f"{_MOST_BYTES // 2**30} GB; choose a smaller side="
            )
        given = DataOptions.of(named).limits
        limits = given or limits_of_all(files)
        channels = DataOptions.of(named).channels
        every = [_decoded(file, side, limits) for file in files]
        decoded = {at: each for at, each in enumerate(every) if isinstance(each, Decoded)}
        reasons = {
            file.name: each
            for file, each in zip(files, every, strict=True)
            if isinstance(each, str)
        }
        left_out = images_left_out(reasons, len(files))
        deep = sum(each.treatment is Treatment.deep for each in decoded.values())
        if len(decoded) < 3:
            raise UserError(
                f"data={named} has {len(decoded)} images; three or more are needed{left_out and f'; {left_out}'}"
            )
        return cls(
            tuple(files[at] for at in decoded),
            tuple(each.size for each in decoded.values()),
            torch.from_numpy(
                np.stack([in_channels(each.pixels, channels) for each in decoded.values()])
            ),
            tuple(decoded),
            limits,
            (*filter(None, [left_out]), *limits_text(limits, deep, is_given=given is not None)),
        )


def _decoded(file: Path, side: int, limits: Limits) -> Decoded | str:
    """A scene, or why it cannot be used."""
    try:
        return decode(file, side, limits, is_cropped=False)
    except UndecodableError as error:
        return str(error)


def scene_splits(
    scenes: ScenePixels, parts: Int8[ndarray, "n"], folder: Path, named: str
) -> tuple[dict[str, Int64[ndarray, "_"]], list[str]]:
    """Positions of the images of each split, and lines on them; a missing split is drawn.

    Equal and nearly equal images, or those of a group by the rule of `groups=`, stay in one split.

    Raises:
      UserError: if there are no training images, too few groups to draw from, or given splits share images.
    """
    if not (parts == ImagePart.train).any():
        raise UserError(f"data={named} has no training images")
    missing = [part for part in (ImagePart.valid, ImagePart.test) if not (parts == part).any()]
    count = len(parts)
    each = np.arange(count)
    pixels = scenes.pixels.numpy().repeat(3 // scenes.pixels.shape[-1], -1)  # grey ones, too
    small = [stretched(Image.fromarray(image), 32) for image in pixels]
    digests = np.array([sha256(image.tobytes()).hexdigest() for image in small])
    _, first, number = np.unique(digests, return_index=True, return_inverse=True)
    equal_to = first[number]
    lines = images_repeated(np.zeros(count, np.int64), parts, equal_to)
    rule = DataOptions.of(named).groups
    if rule is None:
        groups = grouped(equal_to, None, near_pairs(np.stack(list(map(thumbnail, small)))))
        lines += near_text(equal_to, groups) if missing else []
    else:
        names = rule.of_paths([str(file.relative_to(folder)) for file in scenes.files])
        groups = grouped(each, names, np.zeros((0, 2), np.int64))
        lines.append(f"images in groups, each in one split: {len(np.unique(groups)):,} groups")
    words = "nearly equal to" if rule is None else "in one group with"
    lines += shared_groups(groups, parts, equal_to, words)
    order = np.random.default_rng(SPLIT_SEED).permutation(count)
    parts = parts.copy()
    is_train = parts == ImagePart.train
    sizes = np.bincount(groups[is_train], minlength=count)
    pool = order[(is_train & (groups == each))[order]]
    kept = max(1, round(SHARE * int(is_train.sum())))
    if len(pool) <= len(missing):
        raise UserError(
            f"data={named}: {len(pool)} different images are too few to draw splits from; nearly equal ones, and those "
            f"of a group, count once: add others, or say that they differ by groups=none of nas.fit"
        )
    for later, part in zip(range(len(missing))[::-1], missing, strict=True):
        is_taken = taken(sizes[pool], kept, len(pool) - later - 1)
        parts[is_train & np.isin(groups, pool[is_taken])] = part
        pool = pool[~is_taken]
    splits = {part.name: order[parts[order] == part] for part in ImagePart}
    counts = ", ".join(f"{len(splits[part.name]):,} {part.words}" for part in ImagePart)
    drawn = " and ".join(part.words for part in missing)
    lines.append(f"{counts} images{f'; {drawn} drawn by seed {SPLIT_SEED}' if missing else ''}")
    return splits, lines


@final
@dataclass(frozen=True)
class Scenes:
    """Images in memory, with what is to be learnt of each."""

    files: tuple[Path, ...]
    sizes: tuple[tuple[int, int], ...]  # width and height of each file
    pixels: UInt8[Tensor, "n side side c"]
    targets: Tensor  # a row an image
    splits: dict[str, Int64[ndarray, "_"]]  # positions of the images of train, valid and test
    limits: Limits  # pixel values of images of more than 8 bits that became 0 and 255
    report: tuple[str, ...]
    mean: tuple[float, ...]
    sd: tuple[float, ...]
    _on_devices: dict[torch.device, Scenes] = field(default_factory=dict, init=False, compare=False)

    @classmethod
    def of(
        cls,
        images: ScenePixels,
        targets: Tensor,
        parts: Int8[ndarray, "n"],
        folder: Path,
        named: str,
    ) -> Scenes:
        """Join images and targets, and draw the splits that are not given.

        Raises:
          UserError: if splits cannot be drawn.
        """
        splits, lines = scene_splits(images, parts, folder, named)
        report = (*images.report, *lines)
        mean, sd = scaling_of_scenes(DataOptions.of(named))
        return cls(
            images.files,
            images.sizes,
            images.pixels,
            targets,
            splits,
            images.limits,
            report,
            mean,
            sd,
        )

    def on(self, device: torch.device) -> Scenes:
        """The scenes on a device, which keeps them; on a GPU with little memory left, they stay where they are."""
        size = self.pixels.nbytes + self.targets.nbytes
        is_there = device.type == self.pixels.device.type
        if is_there or size > _MOST_OF_GPU * torch.cuda.mem_get_info(device)[0]:
            return self._on_devices.get(device, self)
        if device not in self._on_devices:
            pixels, targets = self.pixels.to(device), self.targets.to(device)
            self._on_devices[device] = replace(self, pixels=pixels, targets=targets)
        return self._on_devices[device]

    def batches(self, split: str, augment: Augment) -> SceneBatches:
        """Batches of a split; those of `train` are augmented."""
        positions = torch.from_numpy(self.splits[split])
        return SceneBatches(self, positions, augment if split == "train" else None)

    def described(self, title: str, classes: tuple[str, ...], metric: str) -> LearnerDescription:
        """The data, and how networks are judged on them."""
        digest = sha256(np.asarray(self.pixels).tobytes())
        digest.update(np.asarray(self.targets).tobytes())
        for name in ("train", "valid", "test"):
            digest.update(self.splits[name].tobytes() + b";")
        train, valid, test = (len(self.splits[name]) for name in ("train", "valid", "test"))
        return LearnerDescription(
            name=safe_name(title),
            title=title,
            outputs=len(classes),
            metric=metric,
            counts=(train, valid, test),
            digest=digest.hexdigest(),
            report=self.report,
            classes=classes,
            mean=self.mean,
            sd=self.sd,
            limits=self.limits,
        )


@final
@dataclass(frozen=True)
class SceneBatches:
    """Normalised images with their targets; those to train on are shuffled, and full batches."""

    scenes: Scenes
    positions: Int64[Tensor, "n"]
    augment: Augment | None

    @property
    def _size(self) -> int:
        return min(BATCH * (1 + (len(self.positions) > MANY)), len(self.positions))

    def to(self, device: torch.device) -> SceneBatches:
        """The batches on a device."""
        return replace(self, scenes=self.scenes.on(device))

    def __len__(self) -> int:
        full, left = divmod(len(self.positions), self._size)
        return full if self.augment is not None else full + bool(left)

    def __iter__(self) -> Iterator[tuple[Float[Tensor, "b c side side"], Tensor]]:
        positions = self.positions
        if self.augment is not None:
            positions = positions[torch.randperm(len(positions))]
        for which in positions.split(self._size)[: len(self)]:
            scenes = self.scenes
            images = normalised(scenes.pixels[which], scenes.mean, scenes.sd)
            targets = scenes.targets[which]
            yield (images, targets) if self.augment is None else self.augment(images, targets)


def scaling_of_scenes(options: DataOptions) -> Scaling:
    """The scaling that the options name, else ImageNet's in the order of their channels."""
    if options.scaling is not None:
        return options.scaling
    if options.channels == "bgr":
        return MEAN[::-1], SD[::-1]
    if options.channels == "grey":
        return (sum(MEAN) / len(MEAN),), (sum(SD) / len(SD),)
    return MEAN, SD


def normalised(
    pixels: UInt8[Tensor, "b side side c"],
    mean: tuple[float, ...],
    sd: tuple[float, ...],
) -> Float[Tensor, "b c side side"]:
    """Images as networks take them."""
    means, sds = (torch.tensor(each, device=pixels.device) for each in (mean, sd))
    scaled = (pixels.float() / 255 - means) / sds
    return scaled.permute(0, 3, 1, 2).contiguous()


def unchanged(images: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Images as they are, where a mirror would change what they show."""
    return images, targets


def some_of(
    changed: tuple[Tensor, Tensor], images_and_targets: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    """Half of the images changed, with their targets."""
    which = (torch.rand(len(changed[0])) < 0.5).to(changed[0].device)
    images, targets = (
        torch.where(which.view(-1, *[1] * (new.dim() - 1)), new, old)
        for new, old in zip(changed, images_and_targets, strict=True)
    )
    return images, targets


def resamples(images: int) -> Int64[ndarray, "draws images"]:
    """How often each image is drawn, for the interval of a metric: a bootstrap."""
    rng = np.random.default_rng(0)
    return np.asarray(rng.multinomial(images, np.full(images, 1 / images), _RESAMPLES))


def read_mask(file: Path, side: int) -> tuple[UInt8[ndarray, "side side"], tuple[int, int]]:
    """Numbers of an upright mask resized to a square by the nearest pixel, and its width and height.

    Raises:
      UserError: if it cannot be read, or has not one exact number a pixel.
    """
    try:
        with Image.open(file, formats=FORMATS) as image:
            if image.width * image.height > MOST_PIXELS:
                fault = f"it has more than {MOST_PIXELS:,} pixels"
            elif image.format == "JPEG":
                fault = "a JPEG keeps no exact numbers of classes; save masks as PNG"
            elif (mask := _numbers(ImageOps.exif_transpose(image))) is None:
                fault = f"a mask has one number a pixel, 0 to 255, and this has colours, or more bits ({image.mode})"
            else:
                resized = mask.resize((side, side), Image.Resampling.NEAREST)
                return np.asarray(resized, np.uint8), mask.size
    except Exception as error:  # noqa: BLE001 - a damaged file raises anything
        fault = (str(error) or repr(error)).splitlines()[0]
    raise UserError(f"{file}: {fault}")


def _numbers(mask: Image.Image) -> Image.Image | None:
    """A mask of one number a pixel; None where pixels have colours, are transparent, or have numbers beyond 255."""
    if mask.mode in {"L", "P", "1"}:
        return mask
    pixels = np.asarray(mask)
    if mask.mode in {"LA", "RGB", "RGBA"}:
        colours = pixels[..., :-1] if mask.mode.endswith("A") else pixels
        is_opaque = colours is pixels or bool((pixels[..., -1] == 255).all())
        is_number = is_opaque and bool((colours == colours[..., :1]).all())
        pixels = pixels[..., 0]
    else:
        is_number = mask.mode[0] == "I" and 0 <= pixels.min() <= pixels.max() <= 255
    return Image.fromarray(pixels.astype(np.uint8)) if is_number else None


def image_files(folder: Path) -> tuple[Path, ...]:
    """Images of a folder and of those below, by path."""
    return tuple(
        sorted(
            file
            for file in folder.rglob("*")
            if file.suffix.lower() in IMAGE_SUFFIXES
            and file.is_file()
            and not any(map(is_hidden, file.relative_to(folder).parts))
        )
    )


def title_of(folder: Path) -> str:
    """What COCO's JSON calls the data, or the folder's name."""
    try:
        title = str(json.loads(read_text(folder / "annotations.json"))["info"]["description"])[:100]
    except (OSError, UserError, ValueError, TypeError, LookupError, RecursionError):
        title = ""
    return printable(title.strip() or folder.resolve().name)


WORST = 12
"""Pictures of answers beside the truth."""

_LONGEST = 300
"""Pixels of a picture, at most."""


def colour(number: int) -> tuple[int, int, int]:
    """Colour of a class; the background has none."""
    rgb = colorsys.hsv_to_rgb(number * 0.618 % 1, 0.75, 1.0 if number % 2 else 0.75)
    red, green, blue = (round(255 * part) for part in rgb)
    return red, green, blue


def beside(
    left: UInt8[ndarray, "h w 3"], right: UInt8[ndarray, "h w 3"], caption: str
) -> LearnerPicture:
    """Two pictures with a white line between them."""
    pair = np.concatenate([left, np.full((len(left), 4, 3), 255, np.uint8), right], 1)
    return picture_of(pair, caption)


def picture_of(pixels: UInt8[ndarray, "h w 3"], caption: str) -> LearnerPicture:
    """A picture, not larger than a page shows it."""
    picture = Image.fromarray(pixels)
    picture.thumbnail((_LONGEST, _LONGEST))
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=85)
    return LearnerPicture(caption, file.getvalue())
