"""Policies that decide beforehand, for two groups of lanes: the GPU's and the CPU's."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

from runtime.network.segment_kind import Kind
from runtime.scheduling.policies.base import Placement, PlacementContext, Policy


@final
@dataclass(frozen=True)
class Groups:
    """The lanes of a GPU, or what stands for one, and those of a CPU."""

    gpu: tuple[int, ...]
    cpu: tuple[int, ...]


@final
@dataclass(frozen=True)
class HalfAndHalf(Policy):
    """Every other network to the GPU, the rest to the CPU; in each, to its lanes in turn."""

    groups: Groups

    def place(self, context: PlacementContext) -> Placement:
        """The lane for this job."""
        turn, side = divmod(context.job.network, 2)
        return _in_turn((self.groups.gpu, self.groups.cpu)[side], turn, context)


@final
@dataclass(frozen=True)
class ConvolutionsToGpu(Policy):
    """Jobs that are mainly a convolution to the GPU, the rest to the CPU.

    Each network has one lane of either, in turn.
    """

    groups: Groups

    def place(self, context: PlacementContext) -> Placement:
        """The lane for this job."""
        lanes = self.groups.gpu if context.kind is Kind.CONV else self.groups.cpu
        return _in_turn(lanes, context.job.network, context)


def _in_turn(lanes: tuple[int, ...], turn: int, context: PlacementContext) -> Placement:
    lane = lanes[turn % len(lanes)]
    times_ms = context.predicted_ms
    if math.isinf(times_ms[lane]):
        lane = min(range(len(times_ms)), key=times_ms.__getitem__)
    return Placement(lane, times_ms[lane])
