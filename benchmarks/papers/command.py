"""`python -m benchmarks`: an experiment leaves a JSON file, a page and tables in the terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from rich.console import Console

from benchmarks.papers.config import BenchConfig, Experiment
from benchmarks.papers.contention.measure import steps as contention_steps
from benchmarks.papers.contention.show import CONTENTION
from benchmarks.papers.coschedule.measure import steps as coschedule_steps
from benchmarks.papers.coschedule.show import COSCHEDULE
from benchmarks.papers.decompose.measure import steps as decompose_steps
from benchmarks.papers.decompose.show import DECOMPOSE
from benchmarks.papers.driver import measured_in_steps
from benchmarks.papers.machine_state import experiment_facts
from benchmarks.papers.mapped.view import MAPPED
from benchmarks.papers.optimum.measure import steps as optimum_steps
from benchmarks.papers.optimum.show import OPTIMUM
from benchmarks.papers.placement.measure import steps as memory_steps
from benchmarks.papers.placement.show import MEMORY
from benchmarks.papers.predictor.measure import steps as predictor_steps
from benchmarks.papers.predictor.show import PREDICTOR
from benchmarks.papers.print import print_results
from benchmarks.papers.qs.measure import steps as qs_steps
from benchmarks.papers.qs.show import QS
from benchmarks.papers.results import Results, read_results
from benchmarks.papers.schedulability.measure import measure as measure_schedulability
from benchmarks.papers.schedulability.show import SCHEDULABILITY
from benchmarks.papers.simulator.measure import steps as simulator_steps
from benchmarks.papers.simulator.show import SIMULATOR
from benchmarks.papers.streaming.measure import steps as stream_steps
from benchmarks.papers.streaming.show import STREAM
from benchmarks.papers.view import View
from common.command.hydra_command import typed_hydra_command
from common.files.atomic_file import require_writable
from common.page.print import print_lines, wide_console

CONF = Path(__file__).parents[1] / "conf"

Measure = Callable[[BenchConfig, Results, Path, Console], None]
"""Fills the results, and writes them to the path."""


EXPERIMENTS: Mapping[str, tuple[View, Measure]] = {
    "qs": (QS, measured_in_steps(qs_steps)),
    "coschedule": (COSCHEDULE, measured_in_steps(coschedule_steps)),
    "decompose": (DECOMPOSE, measured_in_steps(decompose_steps)),
    "simulator": (SIMULATOR, measured_in_steps(simulator_steps)),
    "optimum": (OPTIMUM, measured_in_steps(optimum_steps)),
    "contention": (CONTENTION, measured_in_steps(contention_steps)),
    "memory": (MEMORY, measured_in_steps(memory_steps)),
    "predictor": (PREDICTOR, measured_in_steps(predictor_steps)),
    "stream": (STREAM, measured_in_steps(stream_steps)),
    "schedulability": (SCHEDULABILITY, measure_schedulability),
}
"""Each experiment with the view of its results, and the function that measures it."""

_VIEWS = {name: view for name, (view, _) in EXPERIMENTS.items()}
_VIEWS["mapped"] = MAPPED  # has a command of its own


def view_of(results: Results) -> View:
    """The view of the command that wrote the results.

    Raises:
      ValueError: if there is no such experiment.
    """
    if results.experiment not in _VIEWS:
        raise ValueError(f"experiment={results.experiment} must be one of {', '.join(_VIEWS)}")
    return _VIEWS[results.experiment]


def main() -> None:
    """Run the command line's experiment."""
    typed_hydra_command("benchmarks", str(CONF / "papers"), BenchConfig, _run, ValueError)


def _run(config: BenchConfig) -> None:
    config.check()
    console = wide_console()
    folder = Path(config.out)
    if config.experiment is Experiment.page:
        _draw_all(folder, console)
        return
    require_writable(folder)
    name = config.experiment.value
    settings: Any = OmegaConf.to_container(OmegaConf.structured(config), enum_to_str=True)
    results = Results(name, settings, experiment_facts(config.device.value))
    path = folder / f"{name}.json"
    view, measure = EXPERIMENTS[name]
    try:
        measure(config, results, path, console)
    finally:  # after Ctrl-C, too
        if results.rows or results.controls or results.not_measured:
            print_results(results, view, path, console)


def _draw_all(folder: Path, console: Console) -> None:
    if folder.is_file():
        raise ValueError(f"out={folder} is a file; name the folder that holds the results")
    paths = sorted(folder.glob("*.json"))
    if not paths:
        raise ValueError(f"out={folder} holds no results; measure an experiment first")
    skipped = []
    for path in paths:
        try:
            results = read_results(path)
            view = _require_view(results, path)
        except (ValueError, OSError) as error:  # a profile of the memory experiment lies here too
            skipped.append(str(error))
            continue
        print_results(results, view, path, console)
    if len(skipped) == len(paths):
        more = f", nor do {len(skipped) - 1} more files there" if len(skipped) > 1 else ""
        raise ValueError(f"{skipped[0]}{more}; measure an experiment first")
    print_lines(console, *(f"skipped: {one}" for one in skipped))


def _require_view(results: Results, path: Path) -> View:
    """The view of results that this version of the program wrote.

    Raises:
      ValueError: naming the file, if there is no such experiment, or its rows are of another kind.
    """
    try:
        view = view_of(results)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    try:
        view.require_rows(results.rows)
    except ValueError as error:
        raise ValueError(
            f"{path} holds rows that experiment={results.experiment} does not have ({error})"
        ) from error
    return view
