"""Augmentation of a whole batch at once, on the device that holds it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Bool, Int64, UInt8
from torch import Tensor

from nas.fit.training.augmented.rand_augment import CHOICES, OPERATIONS, rand_augmented
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
    def of(cls, n: int, side: int, generator: torch.Generator) -> Draws:
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


def augmented(
    pixels: UInt8[Tensor, "n side side channels"], draws: Draws, recipe: Recipe
) -> UInt8[Tensor, "n side side channels"]:
    """Crop, flip, then RandAugment, as far as the recipe says."""
    if recipe.crop or recipe.flip:
        pixels = _cropped(pixels, draws, recipe)
    if "rand_augment" in recipe.augmentation:
        device = pixels.device
        pixels = rand_augmented(pixels, draws.operations.to(device), draws.signs.to(device))
    return pixels


def _cropped(
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
