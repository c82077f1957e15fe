"""Policies that assign jobs to two groups of lanes, of the GPU and of the CPU, by a fixed rule."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

from runtime.network.segment_kind import Kind
from runtime.scheduling.policies.base import Placement, PlacementContext, Policy


@final
@dataclass(frozen=True)
class Groups:
    """Indices of the lanes of the GPU, or of its stand-in, and of the CPU."""

    gpu: tuple[int, ...]
    cpu: tuple[int, ...]


@final
@dataclass(frozen=True)
class HalfAndHalf(Policy):
    """Assigns every other network to the GPU, the rest to the CPU; within a group, lanes in turn."""

    groups: Groups

    def place(self, context: PlacementContext) -> Placement:
        """The lane for this job."""
        turn, side = divmod(context.job.network, 2)
        return _in_turn((self.groups.gpu, self.groups.cpu)[side], turn, context)


@final
@dataclass(frozen=True)
class ConvolutionsToGpu(Policy):
    """Assigns convolutions to the GPU, other jobs to the CPU.

    Each network has one lane of each group, in turn.
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
