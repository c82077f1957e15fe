"""A network as a chain of blocks, each with a text that a look-up of measured latencies has as a key.

The texts are those of the look-ups that Once-for-All published, so that these can be read, and a user
can measure blocks of his own under the same keys.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import TypeAlias

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from common.types.task import Task
from nas.spaces.mobilenet_v3.costs import each_block, summed
from nas.spaces.mobilenet_v3.layers import Block, Widths, first_block, image_side, stage_sides
from nas.spaces.mobilenet_v3.space import EXPANSIONS, KERNELS, SIDES, STAGES, settings_of

Cost: TypeAlias = Callable[[int, str], float]
"""Cost of a block, by the side of the network's images in pixels and the text of the block."""


def sum_of_blocks(
    architectures: Int64[ndarray, "*n D"], channels: Widths, task: Task, cost: Cost
) -> Float64[ndarray, "*n"]:
    """Sum of a cost over the blocks of each network, those outside the stages included."""
    outside, inside = _costs(channels, task, cost)
    chosen = settings_of(architectures)
    return np.asarray(outside[chosen.side] + summed(inside, chosen.side, chosen))


def block_text(block: Block) -> str:
    """Text of a block with its shapes, kernel, stride, skip, squeeze and activation."""
    return (
        f"expanded_conv-input:{_shape(block.side, block.inputs)}"
        f"-output:{_shape(block.output_side, block.outputs)}-expand:{block.hidden}"
        f"-kernel:{block.kernel}-stride:{block.stride}-idskip:{block.skips:d}"
        f"-se:{block.squeeze > 0:d}-hs:{block.hard_swish:d}"
    )


def texts_outside(channels: Widths, image: int, task: Task) -> tuple[str, ...]:
    """Texts of the blocks that every network has, for images of a side in pixels."""
    stem, *_, last = stage_sides(image)
    return (
        f"Conv-input:{_shape(image, task.channels)}-output:{_shape(stem, channels.stem)}",
        block_text(first_block(channels.stem, stem)),
        f"Conv_1-input:{_shape(last, channels.stages[-1])}-output:{_shape(last, channels.final)}",
        f"AvgPool2D-input:{_shape(last, channels.final)}-output:{_shape(1, channels.final)}",
        f"Conv_2-input:{_shape(1, channels.final)}-output:{_shape(1, channels.features)}",
        f"Logits-input:{_shape(1, channels.features)}-output:{task.num_classes}",
    )


def _shape(side: int, channels: int) -> str:
    return f"{side}x{side}x{channels}"


@lru_cache(maxsize=4)
def _costs(
    channels: Widths, task: Task, cost: Cost
) -> tuple[Float64[ndarray, "sides"], Float64[ndarray, "sides stages 2 kernels expansions"]]:
    """Cost of all blocks outside the stages, and of each block inside, by side of the image."""
    images = [image_side(side, task) for side in SIDES]
    outside = np.array(
        [
            sum(cost(image, text) for text in texts_outside(channels, image, task))
            for image in images
        ]
    )
    inside = np.full((len(SIDES), STAGES, 2, len(KERNELS), len(EXPANSIONS)), np.nan)
    for number in np.flatnonzero(~np.isnan(outside)):
        costs = partial(_cost_of_block, cost, images[number])
        inside[number] = each_block(channels, images[number], costs)
    return outside, inside


def _cost_of_block(cost: Cost, image: int, block: Block) -> float:
    return cost(image, block_text(block))
