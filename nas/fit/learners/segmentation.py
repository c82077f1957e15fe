"""`task=segmentation`: a class for each pixel, judged by the mean intersection over union."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import final

import numpy as np
import torch
from jaxtyping import Float, Float64, Int8, Int64, UInt8
from numpy import ndarray
from torch import Tensor, nn

from edgenas_core.files.safe_file import read_text
from edgenas_core.types.errors import UserError
from edgenas_core.types.printable import printable
from nas.fit.data.class_folders import SPLITS, split_in
from nas.fit.data.decode import orientation
from nas.fit.data.groups import DataOptions
from nas.fit.data.splits import ImagePart
from nas.fit.learners.annotations import conversion
from nas.fit.learners.base import ClassMetric, Findings, LearnerDescription, Metric
from nas.fit.learners.data import moved
from nas.fit.learners.scenes import (
    SIDE,
    WORST,
    SceneBatches,
    ScenePixels,
    Scenes,
    beside,
    colour,
    image_files,
    normalised,
    read_mask,
    resamples,
    some_of,
    title_of,
    unchanged,
)

UNLABELLED = 255
"""Number of pixels that are neither learnt nor judged."""


_SUFFIXES = ("", "_mask", "-mask", "_masks", "_seg", "_label", "_labels", "_gt")
"""What names of masks have beside those of their images."""

_PAIRS = (
    ("images", "masks"),
    ("images", "labels"),
    ("imgs", "masks"),
    ("JPEGImages", "SegmentationClass"),
    ("leftImg8bit", "gtFine"),
    ("image_2", "semantic"),
)
"""Folders of images and of masks."""

_BESIDE_SPLITS = ("annot", "_masks", "_labels")
"""What names of folders of masks have beside those of images: train/ and trainannot/, as CamVid has it."""

_CITYSCAPES = ("_gtFine_labelTrainIds", "_gtFine_labelIds")
"""Ends of the names of Cityscapes' masks, the preferred first."""


def scene_masks(
    folder: Path,
) -> tuple[list[Path], list[Path], Int8[ndarray, "n"], tuple[str, ...]]:
    """Images, their masks, their splits, and lines on images and masks that are left out.

    The folders lie in `folder`, or in train/, val/ and test/ above or below them; VOC's lists name splits, too.

    Raises:
      UserError: if an image has no mask or several, or a mask is that of two images.
    """
    above = (
        [each for each in sorted(folder.iterdir()) if each.name.casefold() in SPLITS]
        if folder.is_dir()
        else []
    )
    files: list[Path] = []
    masks: list[Path] = []
    parts: list[ImagePart] = []
    unused: list[str] = []
    without: list[str] = []
    listed = _listed_splits(folder)
    for place in [each for each in above if each.is_dir()] or [folder]:
        images, found = _folders(place)
        of_place = SPLITS.get(place.name.casefold()) if place != folder else None
        if of_place not in {None, ImagePart.train} and not found.is_dir():
            without += [str(file.relative_to(folder)) for file in image_files(place)]
            continue
        if missing := [each for each in (images, found) if not each.is_dir()]:
            raise UserError(
                f"there is no folder {missing[0]}; put images into images/ and masks of the same names into masks/, or both "
                f"into train/, val/ and test/; to convert other forms: {_converter(folder)}"
            )
        by_name = _masks_by_name(found)
        taken: dict[Path, Path] = {}
        for file in image_files(images):
            inside = file.relative_to(images)
            stem = str(inside.with_suffix(""))
            of_file = _masks_of(stem, by_name)
            if not of_file and listed:
                without.append(file.name)  # VOC has masks of some images
                continue
            if not of_file:
                raise UserError(
                    f"{file} has no mask {found / stem}.png; add it, or move the image elsewhere"
                )
            if len(of_file) > 1 or of_file[0] in taken:
                others = of_file[1:] or [taken[of_file[0]]]
                raise UserError(
                    f"{of_file[0]} and {others[0]} contradict: an image and a mask belong to each other alone"
                )
            taken[of_file[0]] = file
            files.append(file)
            masks.append(of_file[0])
            below = SPLITS.get(inside.parts[0].casefold()) if len(inside.parts) > 1 else None
            part = below if of_place is None else of_place
            parts.append(listed.get(stem, ImagePart.train) if part is None else part)
        unused += [mask.name for every in by_name.values() for mask in every if mask not in taken]
    return files, masks, np.array(parts, np.int8), _left_out(unused, without)


def _left_out(unused: Sequence[str], without: Sequence[str]) -> tuple[str, ...]:
    """Lines on masks without an image and images without a mask."""
    kinds = (("masks without an image", unused), ("images without a mask", without))
    return tuple(
        f"left out, {kind}: {len(names):,} ({', '.join(names[:3])})"
        for kind, names in kinds
        if names
    )


def _listed_splits(folder: Path) -> dict[str, ImagePart]:
    """Splits that the lists of Pascal VOC name, by the names of images."""
    return {
        name: part
        for file in sorted(folder.glob("ImageSets/Segmentation/*.txt"))
        if (part := split_in(file.stem)) is not None
        for name in read_text(file).split()
    }


def _masks_by_name(folder: Path) -> dict[str, list[Path]]:
    """Masks by their paths in the folder, without suffix."""
    by_name: dict[str, list[Path]] = {}
    for mask in image_files(folder):
        by_name.setdefault(str(mask.relative_to(folder).with_suffix("")), []).append(mask)
    return by_name


def _masks_of(stem: str, by_name: Mapping[str, Sequence[Path]]) -> list[Path]:
    """Masks that bear an image's name, with a suffix or as Cityscapes names them."""
    masks = [mask for suffix in _SUFFIXES for mask in by_name.get(stem + suffix, ())]
    city = stem.removesuffix("_leftImg8bit")
    return masks + [mask for end in _CITYSCAPES for mask in by_name.get(city + end, ())][:1]


def _folders(place: Path) -> tuple[Path, Path]:
    """The folders of images and of masks in a folder, or beside one that is named as a split."""
    for images, masks in _PAIRS:
        if (place / images).is_dir() and (place / masks).is_dir():
            return place / images, place / masks
    for ending in _BESIDE_SPLITS:
        if (masks_beside := place.with_name(place.name + ending)).is_dir():
            return place, masks_beside
    return place / _PAIRS[0][0], place / _PAIRS[0][1]


def numbers_of(
    mask: Path, side: int, folder: Path
) -> tuple[UInt8[ndarray, "side side"], tuple[int, int]]:
    """Numbers of a mask of the folder, resized to a square, and its width and height.

    Raises:
      UserError: if it has not one number a pixel, with what writes numbers for colours.
    """
    try:
        return read_mask(mask, side)
    except UserError as error:
        raise UserError(f"{error}; to convert colours to numbers: {_converter(folder)}") from error


def _converter(folder: Path) -> str:
    """Command that writes masks of numbers."""
    return conversion(folder, "voc_segmentation", "--apply-colormap 0")


@final
class Segmentation:
    """Images and masks of equal names; a pixel of a mask is the number of its class."""

    has_equal_steps = True

    def __init__(self, data: str, side: int | None = None) -> None:
        """Reads the images.

        Args:
          data: folder with images/ and masks/, and perhaps classes.txt, a name a line.
          side: pixels that images and masks are resized to, 128 by default.

        Raises:
          UserError: if a file is missing, cannot be read, or does not fit the others.
        """
        options = DataOptions.of(data)
        self.folder, self.mirrors = Path(options.data).expanduser(), options.mirrors
        self.side = SIDE if side is None else side
        files, masks, parts, left_out = scene_masks(self.folder)
        images = ScenePixels.of(files, self.side, data)
        read = [numbers_of(masks[at], self.side, self.folder) for at in images.usable]
        for at, (_, size), wanted in zip(images.usable, read, images.sizes, strict=True):
            if size != wanted:
                is_turned = size == wanted[::-1] and orientation(files[at]) > 1
                turn = ", as its camera turned it; turn the mask, too" if is_turned else ""
                raise UserError(
                    f"{masks[at]} is {size[0]} x {size[1]} pixels, and its image {wanted[0]} x {wanted[1]}{turn}"
                )
        values = torch.from_numpy(np.stack([mask for mask, _ in read]))
        scenes = Scenes.of(images, values, parts[list(images.usable)], self.folder, data)
        self.scenes = replace(scenes, report=(*left_out, *scenes.report))
        self.classes = self._classes()

    def _classes(self) -> tuple[str, ...]:
        """Names of the classes, each of which a training image shows."""
        counts = torch.bincount(self.scenes.targets.reshape(-1).long(), minlength=UNLABELLED + 1)
        used = torch.nonzero(counts[:UNLABELLED]).reshape(-1).tolist()
        if used == [0] and counts[UNLABELLED]:
            raise UserError(
                f"data={self.folder}: masks have the numbers 0 and 255 alone, and 255 is what is not labelled; write 1 "
                f"where they show the object"
            )
        named = self._names()
        if named and not max(used, default=0) < len(named) <= UNLABELLED:
            raise UserError(
                f"{self.folder}: {len(named)} classes are named, and masks have the number {max(used)}"
            )
        if len(used) < 2:
            raise UserError(f"data={self.folder}: masks have one class; two or more are needed")
        trained = self.scenes.targets[torch.from_numpy(self.scenes.splits["train"])]
        shown = set(torch.unique(trained).tolist())
        names = named or [str(number) for number in range(used[-1] + 1)]
        for number in used:
            if number not in shown:
                raise UserError(
                    f"data={self.folder}: no training image shows the class {names[number]}; move one that shows it to "
                    f"the training images"
                )
        absent = [name for number, name in enumerate(names) if number not in used]
        if absent:
            line = f"left out, classes that no mask shows: {len(absent)} ({', '.join(absent[:3])})"
            renumbered = torch.full((UNLABELLED + 1,), UNLABELLED, dtype=torch.uint8)
            renumbered[used] = torch.arange(len(used), dtype=torch.uint8)
            self.scenes = replace(
                self.scenes,
                targets=renumbered[self.scenes.targets.long()],
                report=(*self.scenes.report, line),
            )
        return tuple(names[number] for number in used)

    def _names(self) -> list[str]:
        """Names of the classes by number, of classes.txt or VOC's labelmap.txt; none without them."""
        for name in ("classes.txt", "labelmap.txt"):
            if (self.folder / name).is_file():
                lines = read_text(self.folder / name).split("\n")
                words = [
                    line.partition(":")[0] if name == "labelmap.txt" else line for line in lines
                ]
                return [printable(word)[:100] for word in words if word.strip() and word[0] != "#"]
        return []

    def batches(self, split: str) -> SceneBatches:
        """Images and masks of a split."""
        return self.scenes.batches(split, mirrored if self.mirrors else unchanged)

    def loss(self, network: nn.Module, batch: tuple[Tensor, Tensor]) -> Float[Tensor, ""]:
        """Cross-entropy of all pixels."""
        images, masks = batch
        return nn.functional.cross_entropy(
            network(images).float(), masks.long(), ignore_index=UNLABELLED
        )

    def confusion(
        self, network: nn.Module, batches: Iterable[Sequence[Tensor]]
    ) -> Int64[ndarray, "n classes classes"]:
        """Pixels of each image by their class and by the network's answer."""
        classes, counts = len(self.classes), []
        with torch.no_grad():
            for images, masks in batches:
                truth = masks.long().to(images.device).flatten(1)
                cells = truth * classes + network(images).argmax(1).flatten(1)
                cells[truth >= classes] = classes**2  # unlabelled
                image = torch.arange(len(cells), device=cells.device)[:, None] * (classes**2 + 1)
                numbers = torch.bincount(
                    (cells + image).reshape(-1), minlength=len(cells) * (classes**2 + 1)
                )
                counts.append(numbers.reshape(len(cells), -1)[:, :-1].cpu().numpy())
        return np.concatenate(counts).reshape(-1, classes, classes)

    def findings(self, network: nn.Module) -> Findings:
        """Intersection over union of each class, and the worst masks beside the truth."""
        device = next(network.parameters()).device
        counts = self.confusion(network, (moved(each, device) for each in self.batches("test")))
        shown = (counts.sum(2) > 0).sum(0).tolist()
        values = zip(self.classes, shown, unions(counts.sum(0)).tolist(), strict=True)
        of_images = [  # an image without labels has nothing wrong
            float(np.nanmean(unions(each))) if each.any() else 1.0 for each in counts
        ]
        pictures = []
        for at in np.argsort(of_images)[:WORST].tolist():
            which = self.scenes.splits["test"][[at]]
            image, mask = self.scenes.pixels[which], self.scenes.targets[which][0].numpy()
            with torch.no_grad():
                inputs = normalised(image, self.scenes.mean, self.scenes.sd).to(device)
                answer = network(inputs).argmax(1)[0].cpu().numpy()
            missed = np.unique(mask[(mask != answer) & (mask < len(self.classes))])
            words = ", ".join(self.classes[number] for number in missed.tolist())
            caption = f"mIoU {of_images[at]:.0%}; not right: {words}"
            left, right = (self._laid_on(image[0].numpy(), each) for each in (mask, answer))
            pictures.append(beside(left, right, caption))
        return Findings(
            tuple(ClassMetric(*each) for each in values if not np.isnan(each[2])), tuple(pictures)
        )

    def _laid_on(
        self, pixels: UInt8[ndarray, "h w 3"], classes: ndarray
    ) -> UInt8[ndarray, "h w 3"]:
        """An image under the colours of its classes."""
        colours = np.array([colour(number) for number in range(UNLABELLED + 1)])
        mixed = np.where(classes[..., None] > 0, (pixels + colours[classes]) / 2, pixels)
        return mixed.astype(np.uint8)

    def describe(self) -> LearnerDescription:
        """The images and their classes."""
        return self.scenes.described(title_of(self.folder), self.classes, "mIoU")

    def example_input(self) -> Float[Tensor, "1 c side side"]:
        """Noise in the shape of an image."""
        return torch.randn(1, self.scenes.pixels.shape[-1], self.side, self.side)

    def metric(self, network: nn.Module, batches: Iterable[tuple[Tensor, Tensor]]) -> Metric:
        """Mean intersection over union of the classes; its interval is by resampled images."""
        counts = self.confusion(network, batches)
        flat = resamples(len(counts)) @ counts.reshape(len(counts), -1)
        means = [np.nanmean(unions(each)) for each in flat.reshape(-1, *counts.shape[1:])]
        low, high = np.quantile(means, [0.025, 0.975]).tolist()
        return Metric("mIoU", float(np.nanmean(unions(counts.sum(0)))), (low, high))


def unions(counts: Int64[ndarray, "classes classes"]) -> Float64[ndarray, "classes"]:
    """Intersection over union of each class; NaN of one that neither truth nor answers have."""
    right = np.diag(counts)
    either = counts.sum(0) + counts.sum(1) - right
    return np.where(either > 0, right / np.maximum(either, 1), np.nan)


def mirrored(images: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Half of the images mirrored, with their masks."""
    return some_of((images.flip(-1), targets.flip(-1)), (images, targets))
