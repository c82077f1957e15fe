"""`python -m benchmarks`: an experiment leaves a JSON file, a page and tables in the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from benchmarks.papers.config import BenchConfig
from benchmarks.papers.contention.experiment import CONTENTION
from benchmarks.papers.coschedule.experiment import COSCHEDULE
from benchmarks.papers.machine_state import experiment_facts
from benchmarks.papers.mapped.experiment import MAPPED
from benchmarks.papers.pages import print_results
from benchmarks.papers.placement.experiment import MEMORY
from benchmarks.papers.predictor.experiment import PREDICTOR
from benchmarks.papers.qs.experiment import QS
from benchmarks.papers.results import PaperResults
from benchmarks.papers.schedulability.experiment import SCHEDULABILITY
from benchmarks.papers.simulator.experiment import SIMULATOR
from benchmarks.papers.steps import measure
from benchmarks.papers.streaming.experiment import STREAM
from common.command.hydra_command import typed_hydra_command
from common.files.atomic_file import require_writable
from common.page.print import wide_console

CONF = Path(__file__).parents[1] / "conf"

EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        *(QS, COSCHEDULE, SIMULATOR, CONTENTION, MEMORY, PREDICTOR, STREAM),
        *(SCHEDULABILITY, MAPPED),
    )
}


def main() -> None:
    """Run the command line's experiment."""
    typed_hydra_command("benchmarks", str(CONF / "papers"), BenchConfig, _run, ValueError)


def _run(config: BenchConfig) -> None:
    config.check()
    console = wide_console()
    folder = Path(config.out)
    require_writable(folder)
    experiment = EXPERIMENTS[config.experiment.value]
    settings: Any = OmegaConf.to_container(OmegaConf.structured(config), enum_to_str=True)
    results = PaperResults(experiment.name, settings, experiment_facts(config.device.value))
    path = folder / f"{experiment.name}.json"
    try:
        measure(experiment.steps, config, results, path, console)
    finally:  # after Ctrl-C, too
        if results.rows or results.controls or results.not_measured:
            print_results(results, experiment, path, console)
