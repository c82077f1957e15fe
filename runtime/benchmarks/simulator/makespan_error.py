"""Does the simulator predict the makespan of real lanes from the times of each job alone?

Dispatch is free in it; the times of a network alone include the gaps between its jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from statistics import median

import numpy as np

from benchmarks.bound import lower_bound_ms
from benchmarks.config import BenchConfig
from benchmarks.lanes import HalfAndHalf, opened_lanes
from benchmarks.results import Row, summary
from benchmarks.simulator.simulator import simulate
from benchmarks.steps import ExperimentStep, interleaved, time_is_left
from benchmarks.workloads import Model, source
from edgenas_runtime.lanes.executor import ServedNetwork, executed
from edgenas_runtime.lanes.report import makespan_ms
from edgenas_runtime.network.decompose import Rule
from edgenas_runtime.scheduling.arrivals import closed, periodic
from edgenas_runtime.scheduling.chain import Chain, Request
from edgenas_runtime.scheduling.policies.base import Policy
from edgenas_runtime.scheduling.policies.rules import EarliestFinish, OneLane, QueueTime
from edgenas_runtime.scheduling.schedule import Schedule

_CASES = {
    "nb201": (Model.nas_bench_201,) * 3,
    "alex-nb201": (Model.alexnet, Model.nas_bench_201, Model.nas_bench_201),
    "vgg-res": (Model.vgg16, Model.resnet152),
}
_RULES = (Rule.WHOLE, Rule.CELL, Rule.FUSED)
_INFERENCES = 6


def steps(config: BenchConfig) -> list[ExperimentStep]:
    """One step for each set of networks and rule, on one GPU stream and two cores, or on two cores.

    Raises:
      ValueError: if a workload is unknown.
    """
    return [
        ExperimentStep(f"{name} by {rule.value}", partial(_compare, config, name, rule))
        for name in config.chosen([*_CASES])
        for rule in _RULES
    ]


def _compare(config: BenchConfig, name: str, rule: Rule) -> Iterator[Row]:
    small = replace(config, streams=1, cores=2 if config.on_gpu else None)
    models = _CASES[name]
    kinds = {model: source(model, scale=config.scale_of(model), rule=rule) for model in models}
    with opened_lanes(small, None) as lanes:
        chains = {
            model: lanes.chain(kind, lanes.alone_ms(kind, repeats=10))
            for model, kind in kinds.items()
        }
        networks = [
            ServedNetwork(
                lanes.compiled(kinds[model].program, kinds[model].x), kinds[model].x, chains[model]
            )
            for model in models
        ]
        served = [network.chain for network in networks]
        policies: dict[str, Policy] = {
            "gpu_only": OneLane(lanes.groups.gpu[0]),
            "cpu_only": OneLane(lanes.groups.cpu[0]),
            "queue_time": QueueTime(),
            "earliest_finish": EarliestFinish(),
            "half_and_half": HalfAndHalf(lanes.groups),
        }
        for arrivals, requests in _arrivals(served).items():
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
                simulated_ms = makespan_ms(simulate(served, requests, descriptions, policy))
                taken = samples[named]
                yield {
                    "workload": name,
                    "rule": rule.value,
                    "jobs": sum(map(len, served)),
                    "arrivals": arrivals,
                    "policy": named,
                    **summary(taken),
                    "simulated_ms": round(simulated_ms, 4),
                    "bound_ms": round(lower_bound_ms(served, requests), 4),
                    "error_of_simulator": round(simulated_ms / median(taken) - 1, 5),
                }


def poisson(
    network: int, mean_gap_ms: float, count: int, generator: np.random.Generator
) -> tuple[Request, ...]:
    """Requests of a Poisson process: independent exponential gaps, starting at time 0."""
    arrivals_ms = generator.exponential(mean_gap_ms, count).cumsum()
    return tuple(Request(network, arrival_ms) for arrival_ms in arrivals_ms.tolist())


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


def median_error(rows: list[Row]) -> float | None:
    """Median error of the simulator over all rows that have one; None if no row has."""
    errors = [abs(row["error_of_simulator"]) for row in rows if "error_of_simulator" in row]
    return median(errors) if errors else None
