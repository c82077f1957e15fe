"""Measured cost of dispatching a job to this machine's lanes."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import torch
from torch import nn

from runtime.lanes.base import RealLane
from runtime.lanes.executor import Network, execute
from runtime.lanes.profile import measured_chain
from runtime.network.compiled import Compiled
from runtime.network.decompose import Rule, decompose
from runtime.scheduling.arrivals import closed
from runtime.scheduling.metrics import makespan_ms
from runtime.scheduling.policies.rules import OneLane
from runtime.scheduling.simulator import DispatchOverhead

_JOBS = 32
_NETWORKS = 4
"""Enough for one of them to be always ready."""
_INFERENCES = 6
_ALONE = 100
"""Inferences of the network of one job."""
_REPEATS = 5


def measured_overhead(lanes: Sequence[RealLane]) -> DispatchOverhead:
    """Measure the overhead with networks of nearly empty jobs; takes about a second.

    Several networks on one lane keep the dispatching thread busy, so the time per job is the time to
    put one, or the lane's own time between two jobs if that is longer. An inference of a network of
    one job, alone, takes the time to put it, the job, and the time until its end is noticed.
    """
    many, one = _tiny(lanes, _JOBS, _NETWORKS), _tiny(lanes, 1, 1)
    put_ms, wake_ms = [], []
    for lane in range(len(lanes)):
        busy_ms = _each_ms(many, lanes, lane, _INFERENCES) / _JOBS
        job_ms = one[0].chain.predicted_ms[0][lane]
        put_ms.append(busy_ms)
        wake_ms.append(max(_each_ms(one, lanes, lane, _ALONE) - busy_ms - job_ms, 0.0))
    return DispatchOverhead(tuple(put_ms), tuple(wake_ms))


def _tiny(lanes: Sequence[RealLane], jobs: int, count: int) -> list[Network]:
    x = torch.zeros(1, 8)
    program = decompose(nn.Sequential(*(nn.ReLU() for _ in range(jobs))).eval(), x, Rule.LAYER)
    made = [Compiled(program, x, [lane.engine for lane in lanes]) for _ in range(count)]
    chain = measured_chain("tiny", made[0], x, lanes)
    return [Network(one, x, chain) for one in made]


def _each_ms(
    networks: Sequence[Network], lanes: Sequence[RealLane], lane: int, inferences: int
) -> float:
    """Median time per inference with all networks on one lane."""
    requests = closed(len(networks), inferences)
    taken = []
    for _ in range(_REPEATS):
        schedule, _results = execute(networks, requests, lanes, OneLane(lane))
        taken.append(makespan_ms(schedule) / len(requests))
    return median(taken)
