"""Lower bounds on the makespan of any schedule, if jobs take as long as predicted.

A measured makespan may be below: predicted times are of jobs that ran alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from scipy.optimize import linprog

from edgenas_runtime.scheduling.chain import Chain, Request


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
    """Return the least makespan of jobs that can be divided among lanes and have no order."""
    inferences = Counter(request.network for request in requests)
    times_ms = np.array(
        [
            [repeats * ms for ms in times]
            for network, repeats in inferences.items()
            for times in chains[network].predicted_ms
        ]
    )
    if not len(times_ms):
        return 0.0
    jobs, lanes = times_ms.shape
    can_run = np.isfinite(times_ms)
    # variables: the share of each job on each lane, then the makespan
    loads = np.zeros((lanes, jobs * lanes + 1))
    loads[:, -1] = -1.0
    for lane in range(lanes):
        loads[lane, lane:-1:lanes] = np.where(can_run, times_ms, 0.0)[:, lane]
    whole = np.kron(np.eye(jobs, jobs), np.ones(lanes))
    solved = linprog(
        np.eye(1, jobs * lanes + 1, jobs * lanes)[0],
        A_ub=loads,
        b_ub=np.zeros(lanes),
        A_eq=np.column_stack([whole, np.zeros(jobs)]),
        b_eq=np.ones(jobs),
        bounds=[*((0.0, float(runs)) for runs in can_run.flat), (0.0, None)],
    )
    return float(solved.fun)
