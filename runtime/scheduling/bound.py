"""Lower bounds on the makespan of any schedule, if jobs take as long as predicted.

A measured makespan may be below: predicted times are of jobs that ran alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from runtime.scheduling.chain import Chain, Request

_STEPS = 200


def lower_bound_ms(chains: Sequence[Chain], requests: Sequence[Request]) -> float:
    """Return a lower bound on the makespan of any policy; delays between lanes count as 0.

    It is the larger of the critical path and the total work.
    """
    return max(critical_path_ms(chains, requests), total_work_ms(chains, requests))


def critical_path_ms(chains: Sequence[Chain], requests: Sequence[Request]) -> float:
    """Return the bound for unlimited lanes: each job on its fastest lane, networks independent."""
    fastest_ms = [sum(map(min, chain.predicted_ms)) for chain in chains]
    ends_ms: dict[int, float] = {}
    for request in sorted(requests, key=lambda request: request.arrival_ms):
        begins_ms = max(request.arrival_ms, ends_ms.get(request.network, 0.0))
        ends_ms[request.network] = begins_ms + fastest_ms[request.network]
    begin_ms = min((request.arrival_ms for request in requests), default=0.0)
    return max(ends_ms.values(), default=begin_ms) - begin_ms


def total_work_ms(chains: Sequence[Chain], requests: Sequence[Request]) -> float:
    """Return the bound for jobs that can be divided among lanes and have no order.

    The minimum makespan C of divisible jobs is a linear program. By duality, C is at least the sum
    over jobs of `min over lanes of w[lane] * time[job, lane]` for any weights w >= 0 of sum 1:
    every load is at most C, hence also their weighted mean. The maximum over many weights is
    returned; it is close to the optimum of the program and never exceeds it.
    """
    inferences = Counter(request.network for request in requests)
    rows = [
        (*times, repeats)
        for network, repeats in inferences.items()
        for times in chains[network].predicted_ms
    ]
    if not rows:
        return 0.0
    *times_by_lane, repeats = np.array(rows, dtype=float).T
    times_ms = np.array(times_by_lane)  # (L, J)
    lanes = len(times_ms)
    log_w = np.zeros(lanes)
    best_ms = 0.0
    for step in range(_STEPS):  # exponentiated subgradient ascent
        w = np.exp(log_w - log_w.max())
        w /= w.sum()
        w = 0.999 * w + 0.001 / lanes  # never 0: 0 times an infinite time is NaN
        w /= w.sum()
        weighted_ms = w[:, None] * times_ms
        chosen = weighted_ms.argmin(0)
        best_ms = max(best_ms, float((weighted_ms.min(0) * repeats).sum()))
        own_ms = times_ms[chosen, np.arange(len(chosen))] * repeats
        loads_ms = np.bincount(chosen, own_ms, minlength=lanes)
        log_w += loads_ms / max(loads_ms.max(), np.finfo(float).tiny) / np.sqrt(1 + step)
    return best_ms
