"""`task=segmentation`: a class for each pixel, judged by the mean intersection over union."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
from nas.fit.data.class_folders import SPLITS
from nas.fit.data.groups import DataOptions
from nas.fit.data.splits import ImagePart
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
)
"""Folders of images and of masks."""


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
    listed = {
        stem: SPLITS[split]
        for split in ("train", "val", "test")
        if (file := folder / "ImageSets" / "Segmentation" / f"{split}.txt").is_file()
        for stem in read_text(file).split()
    }
    for place in [each for each in above if each.is_dir()] or [folder]:
        names = next(
            (pair for pair in _PAIRS if all((place / name).is_dir() for name in pair)), _PAIRS[0]
        )
        images, found = (place / name for name in names)
        by_name: dict[str, list[Path]] = {}
        for mask in image_files(found):
            by_name.setdefault(str(mask.relative_to(found).with_suffix("")), []).append(mask)
        taken: dict[Path, Path] = {}
        for file in image_files(images):
            inside = file.relative_to(images)
            stem = str(inside.with_suffix(""))
            of_file = [mask for suffix in _SUFFIXES for mask in by_name.get(stem + suffix, ())]
            if not of_file and listed:  # VOC has masks of some images
                without.append(file.name)
                continue
            if not of_file:
                raise UserError(f"{file} has no mask {found / stem}.png")
            if len(of_file) > 1 or of_file[0] in taken:
                others = of_file[1:] or [taken[of_file[0]]]
                raise UserError(
                    f"{of_file[0]} and {others[0]} contradict: an image and a mask belong to each other alone"
                )
            taken[of_file[0]] = file
            files.append(file)
            masks.append(of_file[0])
            below = SPLITS.get(inside.parts[0].casefold()) if len(inside.parts) > 1 else None
            part = SPLITS.get(place.name.casefold()) if place != folder else below
            parts.append(listed.get(file.stem, ImagePart.train) if part is None else part)
        unused += [mask.name for every in by_name.values() for mask in every if mask not in taken]
    kinds = (("masks without an image", unused), ("images without a mask", without))
    left_out = tuple(
        f"left out, {kind}: {len(names):,} ({', '.join(names[:3])})"
        for kind, names in kinds
        if names
    )
    return files, masks, np.array(parts, np.int8), left_out


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
        read = [read_mask(masks[at], self.side) for at in images.usable]
        for at, (_, size), wanted in zip(images.usable, read, images.sizes, strict=True):
            if size != wanted:
                raise UserError(
                    f"{masks[at]} is {size[0]} x {size[1]} pixels, and its image {wanted[0]} x {wanted[1]}"
                )
        values = torch.from_numpy(np.stack([mask for mask, _ in read]))
        scenes = Scenes.of(images, values, parts[list(images.usable)], self.folder, data)
        self.scenes = replace(scenes, report=(*left_out, *scenes.report))
        self.classes = self._classes()

    def _classes(self) -> tuple[str, ...]:
        """Names of the classes, each of which a training image shows."""
        counts = torch.bincount(self.scenes.targets.reshape(-1).long(), minlength=UNLABELLED + 1)
        used = torch.nonzero(counts[:UNLABELLED]).reshape(-1)
        if used.tolist() == [0] and counts[UNLABELLED]:
            raise UserError(
                f"data={self.folder}: masks have the numbers 0 and 255 alone, and 255 is what is not labelled; write 1 "
                f"where they show the object"
            )
        names = [str(number) for number in range(int(used.max()) + 1 if len(used) else 0)]
        file = self.folder / "classes.txt"
        if file.is_file():
            named = [printable(line)[:100] for line in read_text(file).split("\n") if line.strip()]
            if not len(names) <= len(named) <= UNLABELLED:
                raise UserError(f"{file} names {len(named)} classes, and masks have {len(names)}")
            names = named
        if len(names) < 2:
            raise UserError(f"data={self.folder}: masks have one class; two or more are needed")
        trained = self.scenes.targets[torch.from_numpy(self.scenes.splits["train"])]
        shown = set(torch.unique(trained).tolist())
        for number, name in enumerate(names):
            if number not in shown:
                raise UserError(f"data={self.folder}: no training image shows the class {name}")
        return tuple(names)

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
