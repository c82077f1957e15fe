"""CPU and GPU together against the strongest of either alone, policy by policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import final

from runtime.arrivals import closed
from runtime.bench.config import BenchConfig
from runtime.bench.driver import Step, interleaved, one_line
from runtime.bench.fixed import ConvolutionsToGpu, HalfAndHalf
from runtime.bench.lanes_here import Lanes, only, opened_lanes
from runtime.bench.results import Row, summary
from runtime.bench.workloads import MIXES, Model, Scale, Workload, source
from runtime.bound import lower_bound_ms
from runtime.chain import Request
from runtime.decompose import Rule
from runtime.executor import Network, execute
from runtime.issuing import Way, open_executor
from runtime.metrics import finish_spread_ms, makespan_ms
from runtime.policies import EarliestFinish, QueueTime
from runtime.policy import Policy
from runtime.prepared import Setup, Source
from runtime.schedule import Schedule
from runtime.simulator import simulate

_CELLS = "nb201"
_PROBES = 3
"""Inferences of each kind of network on each kind of lane, for its times alone."""


def steps(config: BenchConfig) -> list[Step]:
    """Small networks on the whole GPU, then all on its slices, then the rest; on a CPU two lanes.

    Raises:
      ValueError: if a workload is unknown.
    """
    names = config.chosen([_CELLS, "mix-8-8-2-2", "mix-5-5-5-5"])
    slices = config.slices if config.on_gpu else []
    parts: list[tuple[str, int | None]] = [(name, None) for name in names if name == _CELLS]
    parts += [(name, sms) for sms in slices for name in reversed(names)]
    parts += [(name, None) for name in names if name != _CELLS]
    return [
        Step(
            f"{name} on {'all' if sms is None else sms} multiprocessors"
            if config.on_gpu
            else f"{name} on two cores",
            partial(_compare, config, name, sms),
        )
        for name, sms in parts
    ]


def _workload(config: BenchConfig, name: str) -> tuple[list[Source], int, Scale]:
    """Networks, and inferences of each; instances of a network share its weights."""
    scale = config.scale
    if name != _CELLS:
        workload: Workload = MIXES[name].limited(config.most_networks if not config.on_gpu else 20)
        kinds = {model: source(model, scale=scale, rule=config.cut) for model, _ in workload.counts}
        sources = [kinds[model] for model, count in workload.counts for _ in range(count)]
        return sources, config.rounds, scale
    jobs = config.jobs if config.jobs is not None else 256 if config.on_gpu else 24
    networks = min(jobs, 32 if config.on_gpu else 4)
    cell = source(
        Model.nas_bench_201,
        scale=Scale(max(scale.width, 0.25)),
        rule=Rule.WHOLE if config.on_gpu else config.cut,
    )
    return [cell] * networks, -(-jobs // networks), scale


@final
@dataclass(frozen=True)
class _Task:
    """What is to be run, on which lanes."""

    networks: list[Network]
    requests: tuple[Request, ...]
    lanes: Lanes

    def run(self, policy: Policy, allowed: Sequence[int] | None = None) -> Schedule:
        """On real lanes; all of them, or those allowed.

        Raises:
          BaseException: what a job raised.
        """
        schedule, results = execute(self._on(allowed), self.requests, self.lanes.lanes, policy)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return schedule

    def simulated(self, policy: Policy, allowed: Sequence[int] | None = None) -> Schedule:
        """On lanes that need what was predicted."""
        chains = [network.chain for network in self._on(allowed)]
        return simulate(chains, self.requests, [one.lane for one in self.lanes.lanes], policy)

    def bound_ms(self) -> float:
        """What no schedule beats, if the times are right."""
        return lower_bound_ms([network.chain for network in self.networks], self.requests)

    def _on(self, allowed: Sequence[int] | None) -> list[Network]:
        if allowed is None:
            return self.networks
        return [only(network, allowed) for network in self.networks]


def _compare(config: BenchConfig, name: str, sms: int | None) -> Iterator[Row]:
    sources, inferences, _ = _workload(config, name)
    with opened_lanes(config, sms) as lanes:
        groups = lanes.groups
        times_ms = {
            one.name: lanes.times_ms(one, repeats=_PROBES)
            for one in {id(s): s for s in sources}.values()
        }
        compiled = [lanes.compiled(one.program, one.x) for one in sources]
        requests = closed(len(sources), inferences)

        def task(slowed: tuple[float, float]) -> _Task:
            networks = [
                Network(made, one.x, lanes.chain(one, times_ms[one.name], slowed))
                for made, one in zip(compiled, sources, strict=True)
            ]
            return _Task(networks, requests, lanes)

        alone = task((1.0, 1.0))
        slowed = tuple(
            max(_slowdown(alone, EarliestFinish(), allowed), 0.1)
            for allowed in (groups.gpu, groups.cpu)
        )
        ready = task((slowed[0], slowed[1]))
        runs = _variants(ready, [one.program.kinds for one in sources])
        last: dict[str, Schedule] = {}

        def timed(variant: str) -> float:
            policy, allowed = runs[variant]
            last[variant] = ready.run(policy, allowed)
            return makespan_ms(last[variant])

        once: dict[str, Callable[[], float]] = {one: partial(timed, one) for one in runs}
        close: list[Callable[[], None]] = []
        if config.on_gpu and sms is None:
            for way in (Way.FORK_JOIN, Way.SINGLE_ISSUER):
                try:
                    executor = _gpu_only(config, way, sources, inferences)
                except Exception as error:  # noqa: BLE001 - a baseline less, which the table says
                    yield {
                        "workload": name,
                        "variant": f"gpu_{way.value}",
                        "error": one_line(error),
                    }
                    continue
                once[f"gpu_{way.value}"] = executor[0]
                close.append(executor[1])
        try:
            samples = interleaved(once, config.repeats)
        finally:
            for end in close:
                end()
        yield from _rows(config, name, sms, ready, runs, samples, last, slowed)


def _slowdown(task: _Task, policy: Policy, allowed: Sequence[int]) -> float:
    """What the lanes of a group, used together, cost each other: real over simulated makespan."""
    task.run(policy, allowed)
    real_ms = median(makespan_ms(task.run(policy, allowed)) for _ in range(3))
    return real_ms / makespan_ms(task.simulated(policy, allowed))


_Variants = Mapping[str, "tuple[Policy, Sequence[int] | None]"]


def _variants(task: _Task, kinds: Sequence[Sequence[object]]) -> _Variants:
    groups = task.lanes.groups
    found: dict[str, tuple[Policy, Sequence[int] | None]] = {
        "gpu_only": (EarliestFinish(), groups.gpu),
        "cpu_only": (EarliestFinish(), groups.cpu),
        "queue_time": (QueueTime(), None),
        "earliest_finish": (EarliestFinish(), None),
        "half_and_half": (HalfAndHalf(groups), None),
    }
    if len(groups.gpu) > 1:
        found["gpu_one_stream"] = (EarliestFinish(), groups.gpu[:1])
    if any(len(own) > 1 for own in kinds):  # a whole network is not a convolution
        found["convolutions_to_gpu"] = (ConvolutionsToGpu(groups), None)
    return found


def _gpu_only(
    config: BenchConfig, way: Way, sources: Sequence[Source], inferences: int
) -> tuple[Callable[[], float], Callable[[], None]]:
    """The GPU alone without a scheduler, networks issued as one: a stronger baseline."""
    at_once = len(sources)
    executor = open_executor(way, sources[:at_once], Setup(config.device))

    def once() -> float:
        return makespan_ms(executor.run(inferences, each_job=False).schedule)

    return once, executor.close


def _rows(  # noqa: PLR0917 - all that a comparison found
    config: BenchConfig,
    name: str,
    sms: int | None,
    task: _Task,
    runs: _Variants,
    samples: Mapping[str, list[float]],
    last: Mapping[str, Schedule],
    slowed: Sequence[float],
) -> Iterator[Row]:
    medians = {variant: median(taken) for variant, taken in samples.items()}
    gpu_ms, gpu_variant = min(
        (ms, variant) for variant, ms in medians.items() if variant.startswith("gpu")
    )
    cpu_ms = medians["cpu_only"]
    sum_of_rates_ms = 1 / (1 / gpu_ms + 1 / cpu_ms)
    for variant, taken in samples.items():
        row: Row = {
            "workload": name,
            "sms": sms,
            "gpu_lanes": len(task.lanes.groups.gpu),
            "cpu_lanes": len(task.lanes.groups.cpu),
            "jobs": len(task.requests),
            "rule": config.cut.value if name != _CELLS or not config.on_gpu else "whole",
            "variant": variant,
            **summary(taken),
            "sum_of_rates_ms": round(sum_of_rates_ms, 4),
            "bound_ms": round(task.bound_ms(), 4),
            "strongest_gpu": gpu_variant,
            "against_gpu": round(medians[variant] / gpu_ms - 1, 5),
            "bound_against_gpu": round(sum_of_rates_ms / gpu_ms - 1, 5),
            "above_sum_of_rates": round(medians[variant] / sum_of_rates_ms - 1, 5),
            "cpu_to_gpu_rate": round(gpu_ms / cpu_ms, 4),
            "slowed_gpu": round(slowed[0], 4),
            "slowed_cpu": round(slowed[1], 4),
        }
        if variant in runs:
            policy, allowed = runs[variant]
            simulated_ms = makespan_ms(task.simulated(policy, allowed))
            schedule = last[variant]
            on_gpu = sum(one.lane in task.lanes.groups.gpu for one in schedule.executed)
            row |= {
                "simulated_ms": round(simulated_ms, 4),
                "finish_spread_ms": round(finish_spread_ms(schedule), 4),
                "gpu_share_of_jobs": round(on_gpu / len(schedule.executed), 4),
            }
        yield row
