"""Measured times of each segment of a program on each lane."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from torch import Tensor

from runtime.lanes.base import RealLane
from runtime.lanes.executor import Network, executed
from runtime.network.program import SegmentedNetwork
from runtime.scheduling.arrivals import closed
from runtime.scheduling.chain import Chain
from runtime.scheduling.policies.rules import OneLane


def measured_chain(
    name: str, program: SegmentedNetwork, x: Tensor, lanes: Sequence[RealLane], *, repeats: int = 10
) -> Chain:
    """Time the program on one lane after another; return its jobs with their median times.

    Each lane runs the program twice as warm-up. Times are infinite on lanes that cannot run it.

    Raises:
      BaseException: any error of a segment.
    """
    kinds = program.kinds
    unknown = Chain(name, kinds, ((0.0,) * len(lanes),) * len(program))
    network = Network(program, x, unknown)
    warm_up = 2
    medians_ms = []
    for lane in range(len(lanes)):
        if not program.runs_on(lane):
            medians_ms.append([math.inf] * len(program))
            continue
        requests = closed(1, warm_up + repeats)
        schedule = executed([network], requests, lanes, OneLane(lane))
        samples_ms: list[list[float]] = [[] for _ in kinds]
        for one in schedule.executed:
            if one.job.request >= warm_up:
                samples_ms[one.job.index].append(one.end_ms - one.start_ms)
        medians_ms.append(np.median(samples_ms, axis=1).tolist())
    return Chain(name, kinds, tuple(zip(*medians_ms, strict=True)))
