"""Parameters, multiply-accumulates and measured costs of networks, block by block.

The counter of Once-for-All (`flops_counter.py`) counts the multiplications of convolutions and of the
classifier, without biases. Normalisation, activations, pooling and sums count as zero, but
normalisation has parameters.

A cost may also be that of a look-up of measured latencies, by the text of each block. The texts are those
of the look-ups that Once-for-All published, and a user can measure blocks of his own under the same keys.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from itertools import product
from typing import TypeAlias

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from edgenas_core.types.task import Task
from edgenas_mobilenet_v3.layers import (
    BlockShape,
    Widths,
    first_block,
    image_side,
    shrunk,
    stage_block,
    stage_sides,
)
from edgenas_mobilenet_v3.space import (
    EXPANSIONS,
    KERNELS,
    MOST_BLOCKS,
    SIDES,
    STAGES,
    BlockSettings,
    settings_of,
)

Cost: TypeAlias = Callable[[int, str], float]
"""Cost of a block, by the side of the network's images in pixels and the text of the block."""

_STAGE = np.arange(STAGES)[:, None]
_PLACE = np.minimum(np.arange(MOST_BLOCKS), 1)  # blocks after the first of a stage cost the same


def parameters(
    architectures: Int64[ndarray, "*n D"], channels: Widths, task: Task
) -> Float64[ndarray, "*n"]:
    """Number of trained parameters of each network."""
    outside = sum(layer[3] for layer in outside_stages(channels, SIDES[0], task))
    always = outside + block_parameters(first_block(channels.stem, 1))
    of_block = _parameters_of_blocks(channels)
    chosen = settings_of(architectures)
    return np.asarray(always + summed(of_block, np.zeros_like(chosen.side), chosen))


def multiply_accumulates(
    architectures: Int64[ndarray, "*n D"], channels: Widths, task: Task
) -> Float64[ndarray, "*n"]:
    """Number of multiply-accumulates for one image."""
    sides = tuple(image_side(side, task) for side in SIDES)
    always = np.array([_fixed_multiply_accumulates(channels, side, task) for side in sides])
    of_block = _multiply_accumulates_of_blocks(channels, sides)
    chosen = settings_of(architectures)
    return np.asarray(always[chosen.side] + summed(of_block, chosen.side, chosen))


def summed(
    of_block: Float64[ndarray, "sides stages 2 kernels expansions"],
    side: Int64[ndarray, "*n"],
    chosen: BlockSettings,
) -> Float64[ndarray, "*n"]:
    """Sum of a cost over the blocks of the stages; `side` is an index into the first axis."""
    costs = of_block[side[..., None, None], _STAGE, _PLACE, chosen.kernel, chosen.expansion]
    return np.asarray(np.where(chosen.on, costs, 0.0).sum((-1, -2)))


def each_block(
    channels: Widths, image: int, cost: Callable[[BlockShape], float]
) -> Float64[ndarray, "stages 2 kernels expansions"]:
    """A cost of every block that a network may have: the first of a stage, and any other."""
    choices = product(range(STAGES), range(2), KERNELS, EXPANSIONS)
    costs = [
        cost(stage_block(channels, stage, place, kernel=kernel, expansion=expansion, image=image))
        for stage, place, kernel, expansion in choices
    ]
    return np.array(costs, float).reshape(STAGES, 2, len(KERNELS), len(EXPANSIONS))


@lru_cache(maxsize=8)
def _parameters_of_blocks(
    channels: Widths,
) -> Float64[ndarray, "1 stages 2 kernels expansions"]:
    return each_block(channels, SIDES[0], block_parameters)[None]


@lru_cache(maxsize=8)
def _multiply_accumulates_of_blocks(
    channels: Widths, sides: tuple[int, ...]
) -> Float64[ndarray, "sides stages 2 kernels expansions"]:
    return np.stack([each_block(channels, side, block_multiply_accumulates) for side in sides])


def block_parameters(block: BlockShape) -> int:
    """Number of trained parameters of a block."""
    expand = (block.inputs + 2) * block.hidden if block.expands else 0
    depthwise = (block.kernel**2 + 2) * block.hidden
    squeeze = (
        2 * block.hidden * block.squeeze + block.hidden + block.squeeze if block.squeeze else 0
    )
    project = (block.hidden + 2) * block.outputs
    return expand + depthwise + squeeze + project


def block_multiply_accumulates(block: BlockShape) -> int:
    """Number of multiply-accumulates of a block for one image."""
    expand = block.inputs * block.hidden * block.side**2 if block.expands else 0
    depthwise = block.kernel**2 * block.hidden * block.output_side**2
    squeeze = 2 * block.hidden * block.squeeze
    project = block.hidden * block.outputs * block.output_side**2
    return expand + depthwise + squeeze + project


def _fixed_multiply_accumulates(channels: Widths, side: int, task: Task) -> int:
    """Number of multiply-accumulates outside the stages."""
    outside = sum(layer[4] for layer in outside_stages(channels, side, task))
    return outside + block_multiply_accumulates(first_block(channels.stem, shrunk(side, 2)))


def outside_stages(
    channels: Widths, image: int, task: Task
) -> list[tuple[str, int, int, int, int]]:
    """Layers that every network has beside its blocks, for images of this side.

    Each is its name, output channels and side, parameters and multiply-accumulates.
    """
    stem, *_, last = stage_sides(image)
    features, classes = channels.features, task.num_classes
    return [
        (
            "3x3 convolution",
            channels.stem,
            stem,
            (9 * task.channels + 2) * channels.stem,
            9 * task.channels * channels.stem * stem**2,
        ),
        (
            "1x1 convolution",
            channels.final,
            last,
            (channels.stages[-1] + 2) * channels.final,
            channels.stages[-1] * channels.final * last**2,
        ),
        ("average pooling", channels.final, 1, 0, 0),
        ("1x1 convolution", features, 1, channels.final * features, channels.final * features),
        ("classifier", classes, 1, (features + 1) * classes, features * classes),
    ]


def sum_of_blocks(
    architectures: Int64[ndarray, "*n D"], channels: Widths, task: Task, cost: Cost
) -> Float64[ndarray, "*n"]:
    """Sum of a cost over the blocks of each network, those outside the stages included."""
    outside, inside = _costs(channels, task, cost)
    chosen = settings_of(architectures)
    return np.asarray(outside[chosen.side] + summed(inside, chosen.side, chosen))


def block_text(block: BlockShape) -> str:
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


def _cost_of_block(cost: Cost, image: int, block: BlockShape) -> float:
    return cost(image, block_text(block))
