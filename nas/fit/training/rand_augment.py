"""RandAugment (Cubuk et al., 2020) of a whole batch: each image has operations of its own.

The operations and their strengths are those of torchvision's `RandAugment()` (two operations,
magnitude 9 of 30), but for histogram equalisation. torchvision draws one pair of operations for all
images of a call, and timm works on one image at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from math import radians
from typing import TypeAlias

import torch
from jaxtyping import Float, Int64, UInt8
from torch import Tensor
from torch.nn import functional

OPERATIONS = 2
"""Operations an image, one after another."""

_STRENGTH = 9 / 30
_SHEAR = 0.3 * _STRENGTH
_SHIFT = 2 * 150 / 331 * _STRENGTH  # of half the side
_ANGLE = radians(30) * _STRENGTH
_FACTOR = 0.9 * _STRENGTH
_POSTERISED = 2.0 ** round(4 * _STRENGTH)  # distance of two levels
_SOLARISED = 255 * (1 - _STRENGTH)

Batch: TypeAlias = Float[Tensor, "n channels side side"]

_WARPS = ("rotate", "shear x", "shear y", "shift x", "shift y")


def _change_brightness(images: Batch, factor: Tensor) -> Tensor:
    return images * factor


def _change_saturation(images: Batch, factor: Tensor) -> Tensor:
    grey = images.mean(1, keepdim=True)
    return grey + (images - grey) * factor


def _change_contrast(images: Batch, factor: Tensor) -> Tensor:
    mean = images.mean((1, 2, 3), keepdim=True)
    return mean + (images - mean) * factor


def _change_sharpness(images: Batch, factor: Tensor) -> Tensor:
    smooth = functional.avg_pool2d(images, 3, 1, 1, count_include_pad=False)
    return smooth + (images - smooth) * factor


def _posterise(images: Batch, _factor: Tensor) -> Tensor:
    return (images / _POSTERISED).floor() * _POSTERISED


def _solarise(images: Batch, _factor: Tensor) -> Tensor:
    return torch.where(images >= _SOLARISED, 255 - images, images)


def _stretch(images: Batch, _factor: Tensor) -> Tensor:
    low, high = images.amin((2, 3), keepdim=True), images.amax((2, 3), keepdim=True)
    return torch.where(high > low, (images - low) * 255 / (high - low).clamp(min=1), images)


_COLOURS: tuple[Callable[[Batch, Tensor], Tensor], ...] = (
    _change_brightness,
    _change_saturation,
    _change_contrast,
    _change_sharpness,
    _posterise,
    _solarise,
    _stretch,
)

CHOICES = 1 + len(_WARPS) + len(_COLOURS)
"""Operations to draw from, with the one that changes nothing."""


def apply_rand_augment(
    pixels: UInt8[Tensor, "n side side channels"],
    operations: Int64[Tensor, "n k"],
    signs: Int64[Tensor, "n k"],
) -> UInt8[Tensor, "n side side channels"]:
    """Apply to each image its operations, numbers below `CHOICES`, as strong or as weak as the signs say.

    A sign is 1 or -1. Pixels from outside the image are black.
    """
    images = pixels.permute(0, 3, 1, 2).float()
    for operation, sign in zip(operations.T, signs.T, strict=True):
        images = _recolour(_warp(images, operation, sign), operation, sign)
    rounded = images.round().clamp(0, 255).to(torch.uint8)
    return rounded.permute(0, 2, 3, 1).contiguous()


def _warp(images: Batch, operation: Int64[Tensor, "n"], sign: Int64[Tensor, "n"]) -> Batch:
    """Rotate, shear or shift by the nearest pixel, all in one look-up."""
    rotates, shears_x, shears_y, shifts_x, shifts_y = (
        (operation == 1 + number) * sign for number in range(len(_WARPS))
    )
    angle = _ANGLE * rotates
    rows = (
        (angle.cos(), _SHEAR * shears_x - angle.sin(), _SHIFT * shifts_x),
        (_SHEAR * shears_y + angle.sin(), angle.cos(), _SHIFT * shifts_y),
    )
    matrix = torch.stack([torch.stack(row, -1) for row in rows], 1)
    grid = functional.affine_grid(matrix, list(images.shape), align_corners=False)
    return functional.grid_sample(images, grid, mode="nearest", align_corners=False)


def _recolour(images: Batch, operation: Int64[Tensor, "n"], sign: Int64[Tensor, "n"]) -> Batch:
    """Change the colours of the images whose operation says so."""
    factor = (1 + _FACTOR * sign)[:, None, None, None]
    changed = images
    for number, colour in enumerate(_COLOURS, 1 + len(_WARPS)):
        is_chosen = (operation == number)[:, None, None, None]
        changed = torch.where(is_chosen, colour(images, factor).clamp(0, 255), changed)
    return changed
