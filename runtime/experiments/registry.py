"""The table of experiments: how each is measured, and how its results are displayed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import final

from rich.console import Console

from runtime.experiments.config import BenchConfig
from runtime.experiments.contention.measure import steps as contention_steps
from runtime.experiments.contention.show import CONTENTION
from runtime.experiments.coschedule.measure import steps as coschedule_steps
from runtime.experiments.coschedule.show import COSCHEDULE
from runtime.experiments.decompose.measure import steps as decompose_steps
from runtime.experiments.decompose.show import DECOMPOSE
from runtime.experiments.driver import measured_in_steps
from runtime.experiments.optimum.measure import steps as optimum_steps
from runtime.experiments.optimum.show import OPTIMUM
from runtime.experiments.placement.measure import steps as memory_steps
from runtime.experiments.placement.show import MEMORY
from runtime.experiments.predictor.measure import steps as predictor_steps
from runtime.experiments.predictor.show import PREDICTOR
from runtime.experiments.qs.measure import steps as qs_steps
from runtime.experiments.qs.show import QS
from runtime.experiments.schedulability.measure import measure as measure_schedulability
from runtime.experiments.schedulability.show import SCHEDULABILITY
from runtime.experiments.simulator.measure import steps as simulator_steps
from runtime.experiments.simulator.show import SIMULATOR
from runtime.experiments.streaming.measure import steps as stream_steps
from runtime.experiments.streaming.show import STREAM
from runtime.mapping.running.view import MAPPED
from runtime.page.results import Results
from runtime.page.view import View

Measure = Callable[[BenchConfig, Results, Path, Console], None]
"""Fills the results, and writes them to the path."""


@final
@dataclass(frozen=True)
class Experiment:
    """One experiment of `python -m runtime.bench`."""

    view: View
    measure: Measure


EXPERIMENTS: Mapping[str, Experiment] = {
    "qs": Experiment(QS, measured_in_steps(qs_steps)),
    "coschedule": Experiment(COSCHEDULE, measured_in_steps(coschedule_steps)),
    "decompose": Experiment(DECOMPOSE, measured_in_steps(decompose_steps)),
    "simulator": Experiment(SIMULATOR, measured_in_steps(simulator_steps)),
    "optimum": Experiment(OPTIMUM, measured_in_steps(optimum_steps)),
    "contention": Experiment(CONTENTION, measured_in_steps(contention_steps)),
    "memory": Experiment(MEMORY, measured_in_steps(memory_steps)),
    "predictor": Experiment(PREDICTOR, measured_in_steps(predictor_steps)),
    "stream": Experiment(STREAM, measured_in_steps(stream_steps)),
    "schedulability": Experiment(SCHEDULABILITY, measure_schedulability),
}


def view_of(results: Results) -> View:
    """The view of the command that wrote the results.

    Raises:
      ValueError: if there is no such experiment.
    """
    views = {name: one.view for name, one in EXPERIMENTS.items()}
    views["mapped"] = MAPPED  # written by `python -m runtime.map run=`
    if results.experiment not in views:
        raise ValueError(f"experiment={results.experiment} must be one of {', '.join(views)}")
    return views[results.experiment]
