"""Augmented training images in device memory, a segment of batches at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64, UInt8
from numpy import ndarray
from torch import Tensor

from nas.fit.data.image_set import UNLABELLED, Images, class_weights
from nas.fit.training.rand_augment import CHOICES, OPERATIONS, apply_rand_augment
from nas.fit.training.recipe import Recipe


@final
@dataclass(frozen=True)
class Draws:
    """Random numbers of the n images of a batch; drawn on the CPU, so that devices agree."""

    shift_y: Int64[Tensor, "n"]  # pixels, from 0 to twice the padding
    shift_x: Int64[Tensor, "n"]
    flip: Bool[Tensor, "n"]
    operations: Int64[Tensor, "n k"]  # of RandAugment
    signs: Int64[Tensor, "n k"]

    @classmethod
    def draw(cls, n: int, side: int, generator: torch.Generator) -> Draws:
        """Draw for n images of this side."""
        width = 2 * padding(side) + 1
        return cls(
            torch.randint(width, (n,), generator=generator),
            torch.randint(width, (n,), generator=generator),
            torch.rand(n, generator=generator) < 0.5,
            torch.randint(CHOICES, (n, OPERATIONS), generator=generator),
            2 * torch.randint(2, (n, OPERATIONS), generator=generator) - 1,
        )


def padding(side: int) -> int:
    """Pixels that a crop may move an image by: 4 of 32 and 2 of 16, as NAS-Bench-201 does."""
    return max(side // 8, 1)


def augment(
    pixels: UInt8[Tensor, "n side side channels"], draws: Draws, recipe: Recipe
) -> UInt8[Tensor, "n side side channels"]:
    """Crop, flip, then RandAugment, as far as the recipe says."""
    if recipe.crop or recipe.flip:
        pixels = _crop(pixels, draws, recipe)
    if "rand_augment" in recipe.augmentation:
        device = pixels.device
        pixels = apply_rand_augment(pixels, draws.operations.to(device), draws.signs.to(device))
    return pixels


def _crop(
    pixels: UInt8[Tensor, "n side side channels"], draws: Draws, recipe: Recipe
) -> UInt8[Tensor, "n side side channels"]:
    """Gather each output pixel from where it comes from; pixels outside the image are black."""
    n, side, device = len(pixels), pixels.shape[1], pixels.device
    row = torch.arange(side, device=device).expand(n, side)
    column = row
    if recipe.crop:
        row = row + draws.shift_y.to(device)[:, None] - padding(side)
        column = column + draws.shift_x.to(device)[:, None] - padding(side)
    if recipe.flip:
        column = torch.where(draws.flip.to(device)[:, None], column.flip(1), column)
    inside = ((row >= 0) & (row < side))[:, :, None] & ((column >= 0) & (column < side))[:, None, :]
    image = torch.arange(n, device=device)[:, None, None]
    row, column = row.clamp(0, side - 1), column.clamp(0, side - 1)
    return pixels[image, row[:, :, None], column[:, None, :]] * inside[..., None]


UNLABELLED_EACH, LEAST_UNLABELLED = 1.0, 1000
"""Images without a label that an epoch has at most: as a multiple of those with one, and where those are few."""


def images_of_epoch(labelled: int, others: int) -> int:
    """Images with a label, and of the others as many as an epoch has at most."""
    most = max(round(UNLABELLED_EACH * labelled), LEAST_UNLABELLED)
    return labelled + min(others, most)


_SEGMENT_BYTES = 2**29
_CHUNK = 4096
"""Images that are copied to the device at once."""


@final
class DeviceImages:
    """Images of some splits; gathers batches of them on a device.

    A GPU holds all images if they take less than half of its memory. Otherwise, and on a CPU, each
    batch is read from the memory maps.
    """

    def __init__(
        self, splits: Sequence[Images], device: torch.device, *, is_balanced: bool = True
    ) -> None:
        """Without `is_balanced`, all images have the same weight, even if classes differ in size."""
        self._splits = splits
        self._begins = np.cumsum([0, *map(len, splits)])
        self._device = device
        labels = np.concatenate([np.asarray(images.labels) for images in splits])
        self._labels = torch.from_numpy(labels)
        self.labelled = int((labels != UNLABELLED).sum())
        """Images with a label, which come first."""
        labels = labels[: self.labelled]
        by_class = class_weights(labels) if is_balanced else np.ones(labels.max(initial=0) + 1)
        self.is_uneven = bool((by_class != 1).any())
        self.class_weights, self._weights = torch.from_numpy(by_class).to(device), by_class[labels]
        self._resident: UInt8[Tensor, "n side side channels"] | None = None
        if device.type == "cuda":
            free, _ = torch.cuda.mem_get_info(device)
            if sum(images.pixels.nbytes for images in splits) < free / 2:
                self._upload()

    def __len__(self) -> int:
        return len(self._labels)

    @property
    def per_epoch(self) -> int:
        """Images of an epoch: those with a label, and some of the others."""
        return images_of_epoch(self.labelled, len(self) - self.labelled)

    @property
    def labels(self) -> Int64[Tensor, "n"]:
        """Numbers of the classes."""
        return self._labels

    @property
    def side(self) -> int:
        """Pixels."""
        return int(self._splits[0].pixels.shape[1])

    def gather(
        self, which: Int64[Tensor, "n"]
    ) -> tuple[UInt8[Tensor, "n side side channels"], Int64[Tensor, "n"]]:
        """Copy the pixels and labels of these images to the device."""
        if self._resident is not None:
            which = which.to(self._device)
            return self._resident[which], self._labels[which]
        pixels = torch.from_numpy(self._read(which.numpy()))
        return pixels.to(self._device), self._labels[which].to(self._device)

    def order(self, count: int, generator: torch.Generator) -> Int64[Tensor, "count"]:
        """Indices of images to train on, with replacement where classes differ much in size.

        A class is then drawn in proportion to the square root of its images: by `benchmarks/results/teachers.md`,
        equal shares cost 0.4 points of plain accuracy, and gain the rare class 1.4.
        """
        labelled, others = self.labelled, len(self) - self.labelled
        if self.is_uneven:
            weights = torch.from_numpy(self._weights).sqrt()
            which = torch.multinomial(weights, labelled, replacement=True, generator=generator)
        else:
            which = torch.randperm(labelled, generator=generator)
        if others:
            drawn = torch.randperm(others, generator=generator)[: self.per_epoch - labelled]
            which = torch.cat([which, labelled + drawn])
            which = which[torch.randperm(len(which), generator=generator)]
        return which[:count]

    def _upload(self) -> None:
        shape = (len(self), *self._splits[0].pixels.shape[1:])
        self._resident = torch.empty(shape, dtype=torch.uint8, device=self._device)
        for which in torch.arange(len(self)).split(_CHUNK):
            chunk = torch.from_numpy(self._read(which.numpy()))
            self._resident[which[0] : which[0] + len(which)] = chunk.to(self._device)
        self._labels = self._labels.to(self._device)

    def _read(self, which: Int64[ndarray, "n"]) -> UInt8[ndarray, "n side side channels"]:
        pixels = np.empty((len(which), *self._splits[0].pixels.shape[1:]), np.uint8)
        split_of = np.searchsorted(self._begins, which, side="right") - 1
        for split, images in enumerate(self._splits):
            chosen = split_of == split
            pixels[chosen] = images.pixels[which[chosen] - self._begins[split]]
        return pixels


@final
@dataclass(frozen=True)
class Batches:
    """Batches of one size in a new order each epoch; what does not fill a batch waits for another.

    Order and augmentation depend on nothing but the seed and the epoch.
    """

    source: DeviceImages
    recipe: Recipe
    batch_size: int
    seed: int
    answers: Float[Tensor, "n o"]
    """Teachers' answers to each image; o is 0 without teachers."""

    @property
    def steps(self) -> int:
        """Batches of an epoch."""
        return self.source.per_epoch // self.batch_size

    @property
    def images(self) -> int:
        """Images that an epoch trains on."""
        return self.steps * self.batch_size

    def segment_steps(self, device: torch.device) -> int:
        """Batches that are in memory at once: one on a CPU, an epoch on a GPU if it is not too large."""
        if device.type != "cuda":
            return 1
        return max(
            1, min(self.steps, _SEGMENT_BYTES // (3 * self.source.side**2 * self.batch_size))
        )

    def epoch(
        self, epoch: int, segment_steps: int
    ) -> Iterator[
        tuple[UInt8[Tensor, "m side side channels"], Int64[Tensor, "m"], Float[Tensor, "m o"]]
    ]:
        """Yield the epoch's images, augmented, `segment_steps` batches at a time or what is left."""
        generator = torch.Generator().manual_seed(hash_of(self.seed, epoch))
        order = self.source.order(self.steps * self.batch_size, generator)
        for which in order.split(segment_steps * self.batch_size):
            pixels, labels = self.source.gather(which)
            draws = Draws.draw(len(which), self.source.side, generator)
            yield augment(pixels, draws, self.recipe), labels, self.answers[which]


def hash_of(seed: int, epoch: int) -> int:
    """Seed of an epoch, of 63 bits."""
    return int(np.random.SeedSequence([seed, epoch]).generate_state(1, np.uint64)[0] >> 1)
