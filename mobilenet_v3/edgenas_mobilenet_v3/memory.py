"""RAM and flash of networks on a microcontroller, from their blocks; each block is traced once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial

import torch
from torch import nn

from edgenas_core.types.task import Task
from edgenas_mobilenet_v3.layers import BlockShape, Widths, stage_sides
from edgenas_mobilenet_v3.network import Block, ConvNorm
from nas.spaces.microcontroller import memory_of
from nas.spaces.traced_operations import operations_of

_Part = tuple[int, tuple[int, int]]  # bytes of its activations, and what it holds


def memory(
    blocks: Sequence[BlockShape], channels: Widths, image: int, task: Task
) -> tuple[int, int]:
    """RAM and flash in bytes of a network's int8 .tflite file."""
    return memory_of(*zip(*_outside(channels, image, task), *map(_of_block, blocks), strict=True))


@cache
def _of_block(block: BlockShape) -> _Part:
    return _part(partial(Block, block.setting), block.inputs, block.side)


@cache
def _outside(channels: Widths, image: int, task: Task) -> tuple[_Part, ...]:
    """The stem, and what follows the stages."""
    last = channels.stages[-1]
    stem = partial(ConvNorm, task.channels, channels.stem, 3, stride=2, activation=nn.Hardswish)
    return (
        _part(stem, task.channels, image),
        _part(lambda: _head(channels, task), last, stage_sides(image)[-1]),
    )


def _head(channels: Widths, task: Task) -> nn.Module:
    return nn.Sequential(
        ConvNorm(channels.stages[-1], channels.final, 1, activation=nn.Hardswish),
        nn.AdaptiveAvgPool2d(1),
        nn.Conv2d(channels.final, channels.features, 1, bias=False),
        nn.Hardswish(),
        nn.Flatten(),
        nn.Linear(channels.features, task.num_classes),
    )


def _part(build: Callable[[], nn.Module], inputs: int, side: int) -> _Part:
    graph = operations_of(build, torch.empty(1, inputs, side, side)).converted()
    return graph.activations(), graph.held()
