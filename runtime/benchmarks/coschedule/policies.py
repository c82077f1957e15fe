"""Co-scheduling on CPU and GPU, against the faster of both alone, for each policy."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache, partial
from statistics import median
from typing import final

from benchmarks.config import BenchConfig
from benchmarks.coschedule.plans import Plans
from benchmarks.dispatch.modes import DispatchMode, open_executor
from benchmarks.dispatch.prepared import DispatchedNetwork, Setup
from benchmarks.lanes import (
    Groups,
    HalfAndHalf,
    opened_lanes,
)
from benchmarks.results import Row, summary
from benchmarks.schedule_metrics import finish_spread_ms, overlap
from benchmarks.steps import ExperimentStep, interleaved, one_line
from benchmarks.workloads import MIXES, Model, Workload, source
from edgenas_core.inference.formats.onnx_export import onnx_bytes
from edgenas_core.inference.operations import operations
from edgenas_runtime.lanes.report import makespan_ms
from edgenas_runtime.scheduling.policies.base import Policy
from edgenas_runtime.scheduling.policies.rules import EarliestFinish, QueueTime
from edgenas_runtime.scheduling.schedule import Schedule
from latency.models.layer_table import open_layer_table
from latency.sources.layers import fused_layers

_CELLS = {"nb201": Model.nas_bench_201, "nb201-mixed": Model.nas_bench_201_mixed}
"""Small networks, all of one architecture; the first is the slowest of the space."""
_FIRST = "nb201"
_FORK = "gpu_fork_join"
_FEW = 8
"""Number of streams of the usual way to share a GPU."""
_PROBES = 3
"""Inferences of each kind of network on each kind of lane, for the times alone."""


def steps(config: BenchConfig) -> list[ExperimentStep]:
    """Small networks on the whole GPU and on slices, mixes on all of it and on the first slice.

    On a CPU each on two lanes.

    Raises:
      ValueError: if a workload is unknown.
    """
    names = config.chosen([*_CELLS, "mix-8-8-2-2", "mix-5-5-5-5"])
    slices = config.slices if config.on_gpu else []
    cells = [name for name in names if name in _CELLS]
    mixes = [name for name in names if name not in _CELLS]
    parts: list[tuple[str, int | None]] = [(name, None) for name in cells]
    parts += [(name, sms) for sms in slices for name in cells if name == _FIRST]
    parts += [(name, None) for name in mixes]
    parts += [(name, sms) for sms in slices[:1] for name in mixes]
    return [
        ExperimentStep(f"{name} on {_where(config, sms)}", partial(_compare, config, name, sms))
        for name, sms in parts
    ]


def _where(config: BenchConfig, sms: int | None) -> str:
    if not config.on_gpu:
        return "two cores"
    return f"{'all' if sms is None else sms} multiprocessors"


def _workload(config: BenchConfig, name: str) -> tuple[list[DispatchedNetwork], int]:
    """Networks and their numbers of inferences; instances of a network share its weights."""
    if name not in _CELLS:
        workload: Workload = MIXES[name].limited(config.most_networks if not config.on_gpu else 20)
        kinds = {
            model: source(model, scale=config.scale, rule=config.cut, by_channel=config.on_gpu)
            for model, _ in workload.counts
        }
        sources = [kinds[model] for model, count in workload.counts for _ in range(count)]
        return sources, config.rounds
    jobs = config.jobs if config.jobs is not None else 256 if config.on_gpu else 24
    networks = min(jobs, 32 if config.on_gpu else 4)
    cell = source(_CELLS[name], scale=config.scale_of(_CELLS[name]), rule=config.cut)
    return [cell] * networks, -(-jobs // networks)


@final
@dataclass(frozen=True)
class _PolicyVariant:
    """A variant to measure."""

    run: Callable[[], Schedule]
    """One run."""
    simulated: Schedule | None = None


def _compare(config: BenchConfig, name: str, sms: int | None) -> Iterator[Row]:
    sources, inferences = _workload(config, name)
    most = config.streams if name in _CELLS else _FEW  # large networks fill it with those
    needed = replace(config, streams=min(config.streams, most, len(sources)))
    with opened_lanes(needed, sms) as lanes, ExitStack() as opened:
        plans = Plans(sources, inferences, lanes)
        opened.callback(plans.close)
        variants, bound_ms = _planned(plans, lanes.groups), round(plans.bound_ms(), 4)
        if config.layers:
            predicted_ms = _predicted_ms(sources, config.layers)
            for network, alone_ms in plans.alone_ms.items():
                columns = ("gpu_ms", "cpu_ms", "predicted_gpu_ms", "predicted_cpu_ms")
                times = zip(columns, (*alone_ms, *predicted_ms[network]), strict=True)
                yield {"workload": name, "network": network, **dict(times)}
            variants |= _planned_by(plans, predicted_ms)
        if config.on_gpu:
            setup = Setup(config.device, sms=lanes.part)
            try:
                fork = opened.enter_context(open_executor(DispatchMode.FORK_JOIN, sources, setup))
            except Exception as error:  # noqa: BLE001 - a baseline less, which the table says
                yield {"workload": name, "variant": _FORK, "error": one_line(error)}
            else:
                variants[_FORK] = _PolicyVariant(
                    lambda: fork.run(inferences, each_job=False).schedule,
                )
        last: dict[str, Schedule] = {}

        def timed(variant: str) -> float:
            last[variant] = variants[variant].run()
            return makespan_ms(last[variant])

        samples = interleaved(
            {variant: partial(timed, variant) for variant in variants}, config.repeats
        )
        common: Row = {
            "workload": name,
            "where": _where(config, sms),
            "gpu_lanes": len(lanes.groups.gpu),
            "cpu_lanes": len(lanes.groups.cpu),
            "jobs": plans.inferences,
            "rule": config.cut.value,
            "bound_ms": bound_ms,
        }
        yield from _rows(common, variants, samples, last)


def _planned(plans: Plans, groups: Groups) -> dict[str, _PolicyVariant]:
    """All policies, each with a static schedule that is made once."""
    asked = _policies(groups)
    if len(groups.gpu) > _FEW:
        asked[f"gpu_{_FEW}_streams"] = (EarliestFinish(), groups.gpu[:_FEW])
    variants = {}
    for name, (policy, allowed) in asked.items():
        plan = plans.plan(policy, allowed)
        variants[name] = _PolicyVariant(partial(plans.run, plan), plan)
    return variants


_table = cache(open_layer_table)  # its fit takes some ten seconds


def _predicted_ms(
    sources: Sequence[DispatchedNetwork], devices: Sequence[str]
) -> dict[str, tuple[float, float]]:
    """Milliseconds of each network by the layer models of the GPU and the CPU."""
    gpu, cpu = map(_table, devices)
    predicted_ms = {}
    for each in {each.name: each for each in sources}.values():
        x = each.x.cpu()
        network = copy.deepcopy(each.module).cpu()
        on_gpu = gpu.predict_ms(operations(network.eval(), x))
        predicted_ms[each.name] = on_gpu, cpu.predict_ms(fused_layers(onnx_bytes(network, [x])))
    return predicted_ms


def _planned_by(
    plans: Plans, alone_ms: Mapping[str, tuple[float, float]]
) -> dict[str, _PolicyVariant]:
    """The policies that use both devices, by these times instead of measured ones."""
    plans.plan_by(alone_ms)
    variants = {}
    for name, policy in (("queue_time", QueueTime()), ("earliest_finish", EarliestFinish())):
        plan = plans.plan(policy)
        variants[f"{name}, predicted"] = _PolicyVariant(partial(plans.run, plan), plan)
    return variants


def _policies(groups: Groups) -> dict[str, tuple[Policy, Sequence[int] | None]]:
    """Policies by name, each with the lanes that it may use; None for all."""
    return {
        "gpu_only": (EarliestFinish(), groups.gpu),
        "cpu_only": (EarliestFinish(), groups.cpu),
        "queue_time": (QueueTime(), None),
        "earliest_finish": (EarliestFinish(), None),
        "half_and_half": (HalfAndHalf(groups), None),
    }


def _rows(
    common: Row,
    variants: Mapping[str, _PolicyVariant],
    samples: Mapping[str, list[float]],
    last: Mapping[str, Schedule],
) -> Iterator[Row]:
    medians = {variant: median(taken) for variant, taken in samples.items()}
    gpu_ms = min(ms for name, ms in medians.items() if name.startswith("gpu_"))
    cpu_ms = medians["cpu_only"]
    sum_of_rates_ms = 1 / (1 / gpu_ms + 1 / cpu_ms)
    for name, taken in samples.items():
        row: Row = {
            **common,
            "variant": name,
            **summary(taken),
            "sum_of_rates_ms": round(sum_of_rates_ms, 4),
            "against_gpu": round(medians[name] / gpu_ms - 1, 5),
            "bound_against_gpu": round(sum_of_rates_ms / gpu_ms - 1, 5),
            "overlap": round(overlap(min(gpu_ms, cpu_ms), medians[name], sum_of_rates_ms), 4),
            "above_sum_of_rates": round(medians[name] / sum_of_rates_ms - 1, 5),
            "cpu_to_gpu_rate": round(gpu_ms / cpu_ms, 4),
            "finish_spread_ms": round(finish_spread_ms(last[name]), 4),
        }
        simulated = variants[name].simulated
        if simulated is not None:
            row["simulated_ms"] = round(makespan_ms(simulated), 4)
        yield row
