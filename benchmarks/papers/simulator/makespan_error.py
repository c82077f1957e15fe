"""Does the simulator predict the makespan of real lanes from the times of each job alone?

It is tried with a model of the dispatching thread, whose overhead was measured with empty jobs, and
without, where dispatch is free and the times of a network alone include the gaps between its jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from statistics import median

import numpy as np
import torch
from torch import nn

from benchmarks.papers.bound import lower_bound_ms
from benchmarks.papers.config import BenchConfig
from benchmarks.papers.lanes import HalfAndHalf, opened_lanes
from benchmarks.papers.results import Row, summary
from benchmarks.papers.simulator.simulator import DispatchOverhead, simulate, times_of
from benchmarks.papers.steps import Step, interleaved, time_is_left
from benchmarks.papers.workloads import Model, source
from runtime.lanes.base import RealLane
from runtime.lanes.executor import ServedNetwork, execute, executed, measured_chain
from runtime.network.compiled import Compiled
from runtime.network.decompose import Rule, decompose
from runtime.scheduling.arrivals import closed, periodic, poisson
from runtime.scheduling.chain import Chain, Request
from runtime.scheduling.metrics import makespan_ms
from runtime.scheduling.policies.base import Policy
from runtime.scheduling.policies.rules import EarliestFinish, OneLane, QueueTime
from runtime.scheduling.schedule import Schedule

_CASES = {
    "nb201": (Model.nas_bench_201,) * 3,
    "alex-nb201": (Model.alexnet, Model.nas_bench_201, Model.nas_bench_201),
    "vgg-res": (Model.vgg16, Model.resnet152),
}
_RULES = (Rule.WHOLE, Rule.CELL, Rule.FUSED)
_INFERENCES = 6


def steps(config: BenchConfig) -> list[Step]:
    """One step for each set of networks and rule, on one GPU stream and two cores, or on two cores.

    Raises:
      ValueError: if a workload is unknown.
    """
    return [
        Step(f"{name} by {rule.value}", partial(_compare, config, name, rule))
        for name in config.chosen([*_CASES])
        for rule in _RULES
    ]


def _compare(config: BenchConfig, name: str, rule: Rule) -> Iterator[Row]:
    small = replace(config, streams=1, cores=2 if config.on_gpu else None)
    models = _CASES[name]
    kinds = {model: source(model, scale=config.scale_of(model), rule=rule) for model in models}
    with opened_lanes(small, None) as lanes:
        overhead = measured_overhead(lanes.lanes)
        alone = {model: lanes.alone(kind, repeats=10) for model, kind in kinds.items()}
        networks = [
            ServedNetwork(
                lanes.compiled(kinds[model].program, kinds[model].x),
                kinds[model].x,
                lanes.chain(kinds[model], alone[model].whole_ms, (1.0, 1.0)),
            )
            for model in models
        ]
        chains = [network.chain for network in networks]
        jobs = [lanes.chain(kinds[model], alone[model].jobs_ms, (1.0, 1.0)) for model in models]
        policies: dict[str, Policy] = {
            "gpu_only": OneLane(lanes.groups.gpu[0]),
            "cpu_only": OneLane(lanes.groups.cpu[0]),
            "queue_time": QueueTime(),
            "earliest_finish": EarliestFinish(),
            "half_and_half": HalfAndHalf(lanes.groups),
        }
        for arrivals, requests in _arrivals(chains).items():
            if arrivals != "closed" and not time_is_left():  # those come first
                return

            def run(policy: Policy, requests: tuple[Request, ...] = requests) -> Schedule:
                return executed(networks, requests, lanes.lanes, policy)

            def once(run: Callable[[Policy], Schedule], policy: Policy) -> float:
                return makespan_ms(run(policy))

            samples = interleaved(
                {named: partial(once, run, policy) for named, policy in policies.items()},
                config.repeats,
            )
            descriptions = [lane.lane for lane in lanes.lanes]
            for named, policy in policies.items():
                thread = simulate(
                    chains,
                    requests,
                    descriptions,
                    policy,
                    actual_ms=times_of(jobs),
                    overhead=overhead,
                )
                free = simulate(chains, requests, descriptions, policy)
                simulated_ms = makespan_ms(thread)
                taken = samples[named]
                yield {
                    "workload": name,
                    "rule": rule.value,
                    "jobs": sum(map(len, chains)),
                    "arrivals": arrivals,
                    "policy": named,
                    **summary(taken),
                    "simulated_ms": round(simulated_ms, 4),
                    "bound_ms": round(lower_bound_ms(jobs, requests), 4),
                    "error_of_simulator": round(simulated_ms / median(taken) - 1, 5),
                    "error_without_issuer": round(makespan_ms(free) / median(taken) - 1, 5),
                    "put_ms": [round(ms, 5) for ms in overhead.put_ms],
                    "wake_ms": [round(ms, 5) for ms in overhead.wake_ms],
                }


def _arrivals(chains: list[Chain]) -> dict[str, tuple[Request, ...]]:
    """Arrivals: all at once; or at a rate for half of the faster lane, periodic or random."""
    fastest_ms = sum(min(times) for chain in chains for times in chain.predicted_ms)
    networks, generator = range(len(chains)), np.random.default_rng(0)
    regular = (periodic(network, 2 * fastest_ms, _INFERENCES) for network in networks)
    random = (poisson(network, 2 * fastest_ms, _INFERENCES, generator) for network in networks)
    return {
        "closed": closed(len(chains), _INFERENCES),
        "periodic": tuple(chain.from_iterable(regular)),
        "poisson": tuple(chain.from_iterable(random)),
    }


def median_error(rows: list[Row], of: str = "error_of_simulator") -> float | None:
    """Median error of the simulator over all rows that have one; None if no row has."""
    errors = [abs(row[of]) for row in rows if of in row]
    return median(errors) if errors else None


_JOBS = 32
_NETWORKS = 4
"""Enough for one of them to be always ready."""
_BUSY = 6
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
        busy_ms = _each_ms(many, lanes, lane, _BUSY) / _JOBS
        job_ms = one[0].chain.predicted_ms[0][lane]
        put_ms.append(busy_ms)
        wake_ms.append(max(_each_ms(one, lanes, lane, _ALONE) - busy_ms - job_ms, 0.0))
    return DispatchOverhead(tuple(put_ms), tuple(wake_ms))


def _tiny(lanes: Sequence[RealLane], jobs: int, count: int) -> list[ServedNetwork]:
    x = torch.zeros(1, 8)
    program = decompose(nn.Sequential(*(nn.ReLU() for _ in range(jobs))).eval(), x, Rule.LAYER)
    made = [Compiled(program, x, [lane.engine for lane in lanes]) for _ in range(count)]
    chain = measured_chain("tiny", made[0], x, lanes)
    return [ServedNetwork(one, x, chain) for one in made]


def _each_ms(
    networks: Sequence[ServedNetwork], lanes: Sequence[RealLane], lane: int, inferences: int
) -> float:
    """Median time per inference with all networks on one lane."""
    requests = closed(len(networks), inferences)
    taken = []
    for _ in range(_REPEATS):
        schedule, _results = execute(networks, requests, lanes, OneLane(lane))
        taken.append(makespan_ms(schedule) / len(requests))
    return median(taken)
