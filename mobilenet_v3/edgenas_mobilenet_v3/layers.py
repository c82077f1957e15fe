"""Shapes of the layers of a network, for a width multiplier and an image side.

The layers are those of the public implementation (`OFAMobileNetV3` of Once-for-All): a stem, a block
without expansion, five stages, a 1x1 convolution, pooling, another 1x1 convolution, a classifier.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from jaxtyping import Int64
from numpy import ndarray

from edgenas_core.types.task import Task
from edgenas_mobilenet_v3.space import SIDES, stages_of

STRIDES = (2, 2, 2, 1, 2)
SQUEEZES = (False, True, False, True, True)
HARD_SWISHES = (False, False, True, True, True)
"""Stride of the first block of each stage; squeeze-and-excitation, and hard swish in place of ReLU."""

_STEM, _STAGE_WIDTHS, _FINAL, _FEATURES = 16, (24, 40, 80, 112, 160), 960, 1280


@final
@dataclass(frozen=True)
class Widths:
    """Channels of the layers for a width multiplier."""

    stem: int
    stages: tuple[int, ...]
    final: int
    features: int


@final
@dataclass(frozen=True)
class BlockShape:
    """An inverted residual block: expand by 1x1, filter each channel, project by 1x1."""

    inputs: int  # channels
    hidden: int
    outputs: int
    kernel: int
    stride: int
    squeeze: int  # channels inside squeeze-and-excitation; 0: the block has none
    hard_swish: bool
    side: int  # of its input, pixels

    @property
    def output_side(self) -> int:
        """Side of its output, pixels."""
        return shrunk(self.side, self.stride)

    @property
    def expands(self) -> bool:
        """Whether the block has a 1x1 convolution that expands its input."""
        return self.hidden != self.inputs

    @property
    def setting(self) -> tuple[int, int, int, int, int, int, bool]:
        """Arguments of the block's module."""
        return (
            self.inputs,
            self.hidden,
            self.outputs,
            self.kernel,
            self.stride,
            self.squeeze,
            self.hard_swish,
        )

    @property
    def skips(self) -> bool:
        """Whether the block adds its input to its output."""
        return self.stride == 1 and self.inputs == self.outputs


def widths(multiplier: float) -> Widths:
    """Channels for a width multiplier, multiples of 8."""
    stem, *stages, final_, features = (
        _multiple_of_8(multiplier * channels)
        for channels in (_STEM, *_STAGE_WIDTHS, _FINAL, _FEATURES)
    )
    return Widths(stem, tuple(stages), final_, features)


def _multiple_of_8(channels: float) -> int:
    """The multiple of 8 next to a number, never less than 90 % of it (MobileNetV2)."""
    rounded = max(8, int(channels + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * channels else rounded


def image_side(side: int, task: Task) -> int:
    """Pixels that a choice of the side stands for: the largest is the task's own side.

    A task of 224 pixels has the sides of the public implementation; those of others are in proportion.
    """
    return (task.image_side * side + SIDES[-1] // 2) // SIDES[-1]


def shrunk(side: int, stride: int) -> int:
    """Side after a convolution that is padded by half its kernel."""
    return (side - 1) // stride + 1


def first_block(channels: int, side: int) -> BlockShape:
    """The block before the stages, the same in every network."""
    return BlockShape(channels, channels, channels, 3, 1, 0, hard_swish=False, side=side)


def stage_sides(side: int) -> tuple[int, ...]:
    """Side of the stem's output, then of each stage's, for an image of this side."""
    sides = [shrunk(side, 2)]
    for stride in STRIDES:
        sides.append(shrunk(sides[-1], stride))
    return tuple(sides)


def stage_block(
    channels: Widths, stage: int, place: int, *, kernel: int, expansion: int, image: int
) -> BlockShape:
    """The block at a place of a stage, both counted from 0, for an image of this side."""
    before, after = stage_sides(image)[stage : stage + 2]
    outputs = channels.stages[stage]
    inputs = (channels.stem, *channels.stages)[stage] if place == 0 else outputs
    hidden = inputs * expansion
    return BlockShape(
        inputs,
        hidden,
        outputs,
        kernel,
        stride=STRIDES[stage] if place == 0 else 1,
        squeeze=_multiple_of_8(hidden / 4) if SQUEEZES[stage] else 0,
        hard_swish=HARD_SWISHES[stage],
        side=before if place == 0 else after,
    )


def blocks_of(architecture: Int64[ndarray, "D"], channels: Widths, image: int) -> list[BlockShape]:
    """Blocks of a network in order, the first one included, for an image of this side."""
    return [
        first_block(channels.stem, shrunk(image, 2)),
        *[
            stage_block(channels, stage, place, kernel=kernel, expansion=expansion, image=image)
            for stage, settings in enumerate(stages_of(architecture))
            for place, (kernel, expansion) in enumerate(settings)
        ],
    ]
