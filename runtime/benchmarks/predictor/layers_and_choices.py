"""Accuracy of predicted layer times, and the cost of scheduling by predictions.

Every distinct layer of some networks, and random ones, are timed alone on two backends: on a GPU and a
core, or on a core by ONNX Runtime and by eager torch. Only held-out layers are judged.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import final

import numpy as np

from benchmarks.config import BenchConfig
from benchmarks.dispatch.prepared import DispatchedNetwork
from benchmarks.lanes import opened_lanes
from benchmarks.one_core import on_one_core
from benchmarks.predictor.accuracy import (
    PUBLISHED,
    LayerFit,
    alike_as_one,
    by_group,
    fitted,
    held_out,
    tenths,
)
from benchmarks.predictor.regression import fit_plain, predicted_chain
from benchmarks.predictor.timing import (
    LayerRun,
    Subject,
    distinct,
    has_kernels,
    random_layers,
    subjects_of,
    time_layers,
)
from benchmarks.results import Row
from benchmarks.simulator.simulator import simulate, times_of
from benchmarks.steps import ExperimentStep, time_is_left
from benchmarks.workloads import Model, source
from edgenas_core.inference.backend import Backend, Device
from edgenas_core.machine.description import usable_cores
from edgenas_core.machine.timing import TimingConfig
from edgenas_runtime.lanes.base import RealLane
from edgenas_runtime.lanes.cpu import CpuLane
from edgenas_runtime.lanes.executor import measured_chain
from edgenas_runtime.lanes.report import makespan_ms
from edgenas_runtime.network.compiled import Compiled
from edgenas_runtime.network.engine import OnnxEngine
from edgenas_runtime.scheduling.arrivals import closed
from edgenas_runtime.scheduling.chain import Chain, Lane
from edgenas_runtime.scheduling.policies.base import Policy
from edgenas_runtime.scheduling.policies.rules import EarliestFinish, QueueTime
from edgenas_runtime.scheduling.schedule import Schedule
from latency.models.layers import fit_layers

FITS: Mapping[str, LayerFit] = {
    "as printed": fit_plain,
    "relative": partial(fit_layers, trees=0),
    "corrected": fit_layers,
}
"""Eq. 6 of the source; the regression of relative errors; the same, corrected by trees, as of `latency=layers`."""

_DECIDE_BY = ("relative", "corrected")
"""The fits that never predict a negative time."""

_CASES = {
    "nb201": (Model.nas_bench_201,) * 3,
    "alex-nb201": (Model.alexnet, Model.nas_bench_201, Model.nas_bench_201),
    "vgg-alex": (Model.vgg16, Model.alexnet),
    "res-nb201": (Model.resnet152, Model.nas_bench_201),
    "dense-vgg": (Model.densenet201, Model.vgg16),
}
_RANDOM_SHARE = 0.22
"""Of the experiment's minutes, after which a backend times no further random layer: fits and choices take time, too."""

_INFERENCES = 3
_TIMING = TimingConfig(samples=20, warm_up_most=20)


@final
@dataclass(frozen=True)
class _Times:
    """Times of the layers, filled by the first steps and read by the others."""

    ms: dict[str, dict[str, float]] = field(default_factory=dict)
    """Times by backend."""


def steps(config: BenchConfig) -> list[ExperimentStep]:
    """Time the layers on each of two backends, then choose lanes for each case.

    Raises:
      ValueError: if a workload is unknown.
    """
    cases = config.chosen([*_CASES])
    models = tuple(dict.fromkeys(model for case in cases for model in _CASES[case]))
    times = _Times()
    runs = _runs(config)
    timed = [
        ExperimentStep(f"layers by {name}", partial(_layers, config, name, run, models, times))
        for name, run in runs.items()
    ]
    choices = [
        ExperimentStep(f"choice for {case}", partial(_choices, config, case, [*runs], times))
        for case in cases
    ]
    return timed + choices


def _runs(config: BenchConfig) -> dict[str, LayerRun]:
    """Backends by name; the first stands in for the GPU on a machine without one."""
    onnx = {"onnxruntime": LayerRun(Device.cpu, Backend.onnxruntime)}
    if config.on_gpu:
        return {"graph": LayerRun(Device.cuda, Backend.graph), **onnx}
    return {**onnx, "torch": LayerRun(Device.cpu, Backend.torch)}


def _source(config: BenchConfig, model: Model) -> DispatchedNetwork:
    return source(model, scale=config.scale_of(model), rule=config.cut)


def _inside(source: DispatchedNetwork) -> list[Subject]:
    return subjects_of(source.program, tuple(source.x.shape))


def _layers(
    config: BenchConfig, name: str, run: LayerRun, models: Sequence[Model], times: _Times
) -> Iterator[Row]:
    is_timed = has_kernels if run.backend is Backend.graph else bool
    inside = {model: [*filter(is_timed, _inside(_source(config, model)))] for model in models}
    subjects_inside = [subject for subjects in inside.values() for subject in subjects]
    random = filter(is_timed, random_layers(config.cut, 300 if config.on_gpu else 150))
    every = distinct([*subjects_inside, *random])
    of_networks = len(distinct(subjects_inside))
    rows = []
    until_s = time.monotonic() + _RANDOM_SHARE * 60 * config.most_minutes
    with on_one_core(usable_cores()[-1]):
        for subject, samples in zip(every, time_layers(every, run, _TIMING), strict=False):
            rows.append((subject.layer, float(np.median(samples.ms))))
            is_enough = time.monotonic() > until_s
            if of_networks <= len(rows) < len(every) and (is_enough or not time_is_left()):
                break  # fewer random layers
    timed = alike_as_one(rows)
    times.ms[name] = dict(timed)
    predictions = {each: held_out(timed, tenths(timed), fit) for each, fit in FITS.items()}
    for i, (layer, ms) in enumerate(timed):
        yield {
            "part": "layer",
            "on": name,
            "layer": layer,
            "layer_ms": ms,
            "predicted_ms": {fit: float(each[i]) for fit, each in predictions.items()},
        }
    yield from _accuracies(name, timed, predictions)
    yield from _of_networks(name, inside, times.ms[name])


def _accuracies(
    name: str,
    timed: Sequence[tuple[str, float]],
    predictions: Mapping[str, np.ndarray],
) -> Iterator[Row]:
    published = PUBLISHED["gpu" if name == "graph" else "cpu"]
    for fit, predicted in predictions.items():
        for group, judged in by_group(timed, predicted, least=5):
            yield {
                "part": "accuracy",
                "on": name,
                "fit": fit,
                "kind": group,
                **{key: round(value, 5) for key, value in asdict(judged).items()},
                **{f"published_{key}": value for key, value in published.items()},
            }


def _of_networks(
    name: str, inside: Mapping[Model, Sequence[Subject]], ms: Mapping[str, float]
) -> Iterator[Row]:
    """Predict each network by a fit that saw none of its layers."""
    for model, subjects in inside.items():
        distinct_layers = [*dict.fromkeys(subject.layer for subject in subjects)]
        count = [sum(subject.layer == layer for subject in subjects) for layer in distinct_layers]
        taken_ms = np.array([ms[layer] for layer in distinct_layers])
        row: Row = {"part": "network", "on": name, "network": model.value, "jobs": len(subjects)}
        layers_ms = float(taken_ms @ count)
        row["layers_ms"] = round(layers_ms, 4)
        for fit_name, fit in FITS.items():
            predicted = fitted(_without(ms, distinct_layers), fit).predict_us(distinct_layers) / 1e3
            off = float(np.nansum(predicted * count)) / layers_ms - 1
            row[fit_name.replace(" ", "_")] = round(off, 5)
        yield row


def _without(ms: Mapping[str, float], own: Sequence[str]) -> list[tuple[str, float]]:
    seen = set(own)
    return [(layer, layer_ms) for layer, layer_ms in ms.items() if layer not in seen]


def _choices(config: BenchConfig, case: str, runs: Sequence[str], times: _Times) -> Iterator[Row]:
    missing = [name for name in runs if name not in times.ms]
    if missing:
        raise ValueError(f"the layers by {' and '.join(missing)} were not timed")
    sources = {model: _source(config, model) for model in dict.fromkeys(_CASES[case])}
    measured: dict[Model, Chain] = {}
    with _two_lanes(config) as lanes:
        descriptions = [lane.lane for lane in lanes]
        for model, source in sources.items():
            compiled = Compiled(source.program, source.x, [lane.engine for lane in lanes])
            measured[model] = measured_chain(source.name, compiled, source.x, lanes)
    seen = [subject.layer for source in sources.values() for subject in _inside(source)]
    chains = [measured[model] for model in _CASES[case]]
    for fit in _DECIDE_BY:
        models = [fitted(_without(times.ms[name], seen), FITS[fit]) for name in runs]
        believed = [
            predicted_chain(each.name, each.program, each.x.shape, models)
            for each in (sources[model] for model in _CASES[case])
        ]
        yield from _regrets(case, fit, chains, believed, descriptions)


def _regrets(
    case: str,
    fitted: str,
    known: Sequence[Chain],
    believed: Sequence[Chain],
    lanes: Sequence[Lane],
) -> Iterator[Row]:
    """Policies that know the measured times, or the predicted ones; jobs take the measured ones."""
    requests = closed(len(known), _INFERENCES)
    policies: dict[str, Policy] = {"queue_time": QueueTime(), "earliest_finish": EarliestFinish()}
    for named, policy in policies.items():
        right = simulate(known, requests, lanes, policy)
        blind = simulate(believed, requests, lanes, policy, actual_ms=times_of(known))
        yield _choice(case, fitted, named, right, blind)


def _choice(case: str, fitted: str, policy: str, right: Schedule, blind: Schedule) -> Row:
    known_ms, blind_ms = makespan_ms(right), makespan_ms(blind)
    return {
        "part": "choice",
        "workload": case,
        "fit": fitted,
        "policy": policy,
        "jobs": len(right.executed),
        "by_measured_ms": round(known_ms, 4),
        "by_predicted_ms": round(blind_ms, 4),
        "regret": round(blind_ms / known_ms - 1, 5),
    }


@contextmanager
def _two_lanes(config: BenchConfig) -> Iterator[tuple[RealLane, ...]]:
    """Lanes in the order of `_runs`."""
    if config.on_gpu:
        with opened_lanes(replace(config, streams=1, cores=1), None) as lanes:
            yield lanes.first_of_each()
        return
    cores = usable_cores()
    with ExitStack() as opened:
        yield (
            opened.enter_context(CpuLane(cores[0], name="onnxruntime", engine=OnnxEngine())),
            opened.enter_context(CpuLane(cores[-1], name="torch")),
        )
