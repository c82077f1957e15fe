"""RAM and flash of networks on a microcontroller, from their blocks; each block is traced once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import final

import torch
from torch import nn

from edgenas_core.types.task import Task
from edgenas_mobilenet_v3.layers import BlockShape, Widths, stage_sides
from edgenas_mobilenet_v3.network import Block, ConvNorm
from nas.spaces.microcontroller import MicroGraph, memory_of
from nas.spaces.traced_operations import operations_of


def memory(
    blocks: Sequence[BlockShape], channels: Widths, image: int, task: Task
) -> tuple[int, int]:
    """RAM and flash in bytes of a network's int8 .tflite file."""
    parts = [*_outside(channels, image, task), *map(_of_block, blocks)]
    return memory_of(*zip(*((each.activations, each.held) for each in parts), strict=True))


def graphs(
    blocks: Sequence[BlockShape], channels: Widths, image: int, task: Task
) -> list[MicroGraph]:
    """Operations of the stem, of each block, and of what follows the stages."""
    stem, head = _outside(channels, image, task)
    return [each.graph for each in (stem, *map(_of_block, blocks), head)]


@final
@dataclass(frozen=True)
class _Part:
    """Operations, the bytes of their activations, and what they hold."""

    graph: MicroGraph
    activations: int
    held: tuple[int, int]


@cache
def _of_block(block: BlockShape) -> _Part:
    return _part(partial(Block, block.setting), block.inputs, block.side)


@cache
def _outside(channels: Widths, image: int, task: Task) -> tuple[_Part, _Part]:
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
    return _Part(graph, graph.activations(), graph.held())
