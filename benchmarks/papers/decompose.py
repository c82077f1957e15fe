"""Effect of the rule by which networks are cut into jobs: number of jobs, and makespan of Q-S."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

from benchmarks.papers.config import BenchConfig
from benchmarks.papers.dispatch.modes import DispatchMode, open_executor
from benchmarks.papers.dispatch.prepared import Setup
from benchmarks.papers.experiment import (
    Experiment,
    Table,
    columns,
    names,
    percent,
    spread,
    text,
)
from benchmarks.papers.results import Row, summary
from benchmarks.papers.steps import Step, interleaved, one_line
from benchmarks.papers.workloads import Model, Workload
from runtime.machine.description import usable_cores
from runtime.network.decompose import Rule
from runtime.scheduling.metrics import makespan_ms

_RULES = (Rule.LAYER, Rule.UNFOLDED, Rule.FUSED, Rule.CELL, Rule.WHOLE)
_MODELS = (Model.nas_bench_201, Model.resnet152, Model.densenet201, Model.vgg16, Model.alexnet)


def steps(config: BenchConfig) -> list[Step]:
    """One step for each network, in four instances, captured or eager.

    Raises:
      ValueError: if a network is unknown.
    """
    chosen = config.chosen([model.value for model in _MODELS])
    return [
        Step(f"{model.value} {mode}", partial(_compare, config, model, mode))
        for mode in ("captured", "eager")
        if mode in config.modes
        for model in _MODELS
        if model.value in chosen
    ]


def _compare(config: BenchConfig, model: Model, mode: str) -> Iterator[Row]:
    instances = 4 if config.on_gpu else 2
    workload = Workload(model.value, ((model, instances),))
    setup = Setup(config.device, mode == "captured", () if config.on_gpu else tuple(usable_cores()))
    jobs: dict[Rule, int] = {}
    faults: dict[Rule, str] = {}
    with ExitStack() as opened:
        once = {}
        for rule in _RULES:
            sources = workload.sources(
                scale=config.scale_of(model), device=config.device.value, rule=rule
            )
            if rule is Rule.CELL and sources[0].rule is not Rule.CELL:
                continue  # a chain without cells
            try:
                executor = opened.enter_context(
                    open_executor(DispatchMode.QUEUE_STREAM, sources, setup)
                )
            except Exception as error:  # noqa: BLE001 - the other rules have nothing to do with it
                faults[rule] = one_line(error)
                continue
            jobs[rule] = len(sources[0].program)
            once[rule.value] = lambda executor=executor: makespan_ms(
                executor.run(config.rounds, each_job=False).schedule
            )
        samples = interleaved(once, config.repeats)
    for rule in _RULES:
        row: Row = {
            "network": model.value,
            "instances": instances,
            "mode": mode,
            "rule": rule.value,
        }
        if rule in faults:
            yield {**row, "error": faults[rule]}
        elif rule in jobs:
            yield {**row, "jobs": jobs[rule], **summary(samples[rule.value])}


def _with_gain(rows: list[Row]) -> list[Row]:
    """Each row with its makespan relative to the first rule of its network and mode."""
    first: dict[tuple[str, str], float] = {}
    compared = []
    for row in rows:
        ms = row.get("ms")
        first_ms = first.setdefault((row["network"], row["mode"]), ms) if ms else None
        compared.append({**row, "gain": ms / first_ms - 1 if ms and first_ms else None})
    return compared


DECOMPOSE = Experiment(
    "decompose",
    "What cutting networks into jobs costs",
    steps,
    tables=(
        Table(
            "Q-S by the rule of cutting",
            (
                *(*names("network", "mode", "rule"), *columns(text, jobs="jobs")),
                *(spread("makespan ms"), *columns(percent, gain="to the first rule")),
            ),
            _with_gain,
        ),
    ),
)
