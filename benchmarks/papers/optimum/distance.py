"""Distance of each policy from the optimal schedule, on small cases.

Schedules are simulated, of random cases with synthetic times. The heuristic of the co-scheduling source is `queue_time`.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

import numpy as np

from benchmarks.papers.bound import lower_bound_ms
from benchmarks.papers.config import BenchConfig
from benchmarks.papers.lanes import ConvolutionsToGpu, Groups, HalfAndHalf
from benchmarks.papers.optimum.best_schedule import best_schedule
from benchmarks.papers.optimum.look_ahead import LookAhead
from benchmarks.papers.results import Row
from benchmarks.papers.simulator.simulator import simulate
from benchmarks.papers.steps import Step
from runtime.network.segment_kind import SegmentKind
from runtime.scheduling.arrivals import closed
from runtime.scheduling.chain import Chain, Lane
from runtime.scheduling.metrics import makespan_ms
from runtime.scheduling.policies.base import Policy
from runtime.scheduling.policies.names import policy_named
from runtime.scheduling.policies.rules import OneLane

_DYNAMIC = ("earliest_finish", "queue_time")

_RANDOM = "random"
_RANDOM_CASES = 100


def steps(config: BenchConfig) -> list[Step]:
    """One step: random cases.

    Raises:
      ValueError: if a workload is unknown.
    """
    return [Step(name, _random) for name in config.chosen([_RANDOM])]


def _fixed(groups: Groups) -> dict[str, Policy]:
    return {
        "gpu_only": OneLane(groups.gpu[0]),
        "half_and_half": HalfAndHalf(groups),
        "convolutions_to_gpu": ConvolutionsToGpu(groups),
    }


def _random() -> Iterator[Row]:
    """One row per policy: sums over the cases; median and worst distance from the optimum."""
    generator = np.random.default_rng(0)
    cases = [random_case(generator) for _ in range(_RANDOM_CASES)]
    best_ms = [
        makespan_ms(best_schedule(chains, closed(len(chains)), LANES, sync_ms=SYNC_MS))
        for chains in cases
    ]
    policies = {
        "look_ahead": LookAhead(SYNC_MS),
        **{name: policy_named(name, SYNC_MS) for name in _DYNAMIC},
        **_fixed(Groups(gpu=(1,), cpu=(0,))),
    }
    for name, policy in policies.items():
        took_ms = [
            makespan_ms(simulate(chains, closed(len(chains)), LANES, policy, sync_ms=SYNC_MS))
            for chains in cases
        ]
        above = [took / best - 1 for took, best in zip(took_ms, best_ms, strict=True)]
        yield {
            "workload": f"{len(cases)} random (synthetic times)",
            "jobs": max(sum(map(len, chains)) for chains in cases),
            "policy": name,
            "simulated": True,
            "simulated_ms": round(sum(took_ms), 4),
            "optimum_ms": round(sum(best_ms), 4),
            "bound_ms": round(
                sum(lower_bound_ms(chains, closed(len(chains))) for chains in cases), 4
            ),
            "above_optimum": round(median(above), 5),
            "worst_above_optimum": round(max(above), 5),
        }


LANES = (Lane("cpu"), Lane("gpu", asynchronous=True))
SYNC_MS = ((0.0, 0.0), (0.5, 0.0))
"""Synchronisation from GPU to CPU takes 0.5 ms."""


def random_case(generator: np.random.Generator) -> list[Chain]:
    """Two networks of two to four jobs, or three of two or three, on a core and a GPU.

    A job takes 1 to 4 ms on the GPU and 0.5 to 4 times as long on the core; a job that gains much on
    the GPU is a convolution.
    """
    networks = int(generator.integers(2, 4))
    return [_chain(generator, 6 - networks) for _ in range(networks)]


def _chain(generator: np.random.Generator, max_jobs: int) -> Chain:
    gpu_ms = generator.uniform(1, 4, generator.integers(2, max_jobs + 1))
    ratio = generator.uniform(0.5, 4, len(gpu_ms))
    kinds = tuple(SegmentKind.CONV if r > 1.5 else SegmentKind.ACT for r in ratio)
    times_ms = zip((gpu_ms * ratio).tolist(), gpu_ms.tolist(), strict=True)
    return Chain("random", kinds, tuple(times_ms))
