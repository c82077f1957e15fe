"""What placing a job costs on this machine's lanes, measured."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import torch
from torch import nn

from runtime.arrivals import closed
from runtime.compiled import Compiled
from runtime.decompose import Rule, decompose
from runtime.executor import Network, execute
from runtime.issuer import Issuer
from runtime.lanes import RealLane
from runtime.metrics import makespan_ms
from runtime.policies import OneLane
from runtime.profile import measured_chain

_JOBS = 32
_INFERENCES = 6
_NETWORKS = 4
"""So that there is always one that can be placed."""
_REPEATS = 5


def measured_issuer(lanes: Sequence[RealLane]) -> Issuer:
    """Of these lanes, by networks of jobs that compute next to nothing; takes about a second.

    Several of them on one lane keep the issuing thread busy, so a job takes what it takes to put
    one; with a single one it also takes to wake the thread, wherever the next job is placed at the
    end of the one before.
    """
    x = torch.zeros(1, 8)
    tiny = nn.Sequential(*(nn.ReLU() for _ in range(_JOBS))).eval()
    program = decompose(tiny, x, Rule.LAYER)
    engines = [lane.engine for lane in lanes]
    made = [Compiled(program, x, engines) for _ in range(_NETWORKS)]
    chain = measured_chain("tiny", made[0], x, lanes, repeats=_REPEATS)
    networks = [Network(one, x, chain) for one in made]

    def each_ms(count: int, lane: int) -> float:
        requests = closed(count, _INFERENCES)
        taken = []
        for _ in range(_REPEATS):
            schedule, _results = execute(networks[:count], requests, lanes, OneLane(lane))
            taken.append(makespan_ms(schedule) / (count * _INFERENCES * _JOBS))
        return median(taken)

    put_ms, wake_ms = [], []
    for lane, one in enumerate(lanes):
        busy_ms, alone_ms = each_ms(_NETWORKS, lane), each_ms(1, lane)
        job_ms = sum(times[lane] for times in chain.predicted_ms) / _JOBS
        waits = _JOBS if one.lane.asynchronous else 1  # jobs for one wait for the thread
        put_ms.append(busy_ms)
        unexplained_ms = alone_ms - busy_ms - (0.0 if one.lane.asynchronous else job_ms)
        wake_ms.append(max(waits * unexplained_ms, 0.0))
    return Issuer(tuple(put_ms), tuple(wake_ms))
