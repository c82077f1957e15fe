"""`python -m benchmarks`: an experiment leaves a JSON file, a page and tables in the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from rich.console import Console

from benchmarks.papers.config import BenchConfig, ExperimentName
from benchmarks.papers.contention.experiment import CONTENTION
from benchmarks.papers.coschedule.experiment import COSCHEDULE
from benchmarks.papers.decompose import DECOMPOSE
from benchmarks.papers.experiment import Experiment
from benchmarks.papers.machine_state import experiment_facts
from benchmarks.papers.mapped.experiment import MAPPED
from benchmarks.papers.optimum.experiment import OPTIMUM
from benchmarks.papers.pages import print_results
from benchmarks.papers.placement.experiment import MEMORY
from benchmarks.papers.predictor.experiment import PREDICTOR
from benchmarks.papers.qs.experiment import QS
from benchmarks.papers.results import Results, read_results
from benchmarks.papers.schedulability.experiment import SCHEDULABILITY
from benchmarks.papers.simulator.experiment import SIMULATOR
from benchmarks.papers.steps import measure
from benchmarks.papers.streaming.experiment import STREAM
from common.command.hydra_command import typed_hydra_command
from common.files.atomic_file import require_writable
from common.page.print import print_lines, wide_console

CONF = Path(__file__).parents[1] / "conf"

EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        *(QS, COSCHEDULE, DECOMPOSE, SIMULATOR, OPTIMUM, CONTENTION, MEMORY, PREDICTOR, STREAM),
        *(SCHEDULABILITY, MAPPED),
    )
}


def experiment_of(results: Results) -> Experiment:
    """The experiment whose results these are.

    Raises:
      ValueError: if there is no such experiment.
    """
    if results.experiment not in EXPERIMENTS:
        raise ValueError(f"experiment={results.experiment} must be one of {', '.join(EXPERIMENTS)}")
    return EXPERIMENTS[results.experiment]


def main() -> None:
    """Run the command line's experiment."""
    typed_hydra_command("benchmarks", str(CONF / "papers"), BenchConfig, _run, ValueError)


def _run(config: BenchConfig) -> None:
    config.check()
    console = wide_console()
    folder = Path(config.out)
    if config.experiment is ExperimentName.page:
        _draw_all(folder, console)
        return
    require_writable(folder)
    experiment = EXPERIMENTS[config.experiment.value]
    settings: Any = OmegaConf.to_container(OmegaConf.structured(config), enum_to_str=True)
    results = Results(experiment.name, settings, experiment_facts(config.device.value))
    path = folder / f"{experiment.name}.json"
    try:
        measure(experiment.steps, config, results, path, console)
    finally:  # after Ctrl-C, too
        if results.rows or results.controls or results.not_measured:
            print_results(results, experiment, path, console)


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
            experiment = _checked_experiment(results, path)
        except (ValueError, OSError) as error:  # a profile of the memory experiment lies here too
            skipped.append(str(error))
            continue
        print_results(results, experiment, path, console)
    if len(skipped) == len(paths):
        more = f", nor do {len(skipped) - 1} more files there" if len(skipped) > 1 else ""
        raise ValueError(f"{skipped[0]}{more}; measure an experiment first")
    print_lines(console, *(f"skipped: {reason}" for reason in skipped))


def _checked_experiment(results: Results, path: Path) -> Experiment:
    """The experiment of results that this version of the program wrote.

    Raises:
      ValueError: naming the file, if there is no such experiment, or its rows are of another kind.
    """
    try:
        experiment = experiment_of(results)
        experiment.require_rows(results.rows)
    except ValueError as error:
        raise ValueError(
            f"{path} holds rows that experiment={results.experiment} does not have ({error})"
        ) from error
    return experiment
