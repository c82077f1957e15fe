"""`python -m benchmarks`: an experiment leaves a JSON file, a page and tables in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from benchmarks.config import BenchConfig
from benchmarks.contention.experiment import CONTENTION
from benchmarks.coschedule.experiment import COSCHEDULE
from benchmarks.machine_state import experiment_facts
from benchmarks.mapped.experiment import MAPPED
from benchmarks.pages import print_results
from benchmarks.placement.experiment import MEMORY
from benchmarks.predictor.experiment import PREDICTOR
from benchmarks.qs.experiment import QS
from benchmarks.results import PaperResults
from benchmarks.schedulability.experiment import SCHEDULABILITY
from benchmarks.simulator.experiment import SIMULATOR
from benchmarks.steps import measure
from benchmarks.streaming.experiment import STREAM
from edgenas_core.command.hydra_command import typed_hydra_command
from edgenas_core.files.atomic_file import require_writable
from edgenas_runtime.mapping.printed import wide_console

CONF = Path(__file__).parent / "conf"

EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        *(QS, COSCHEDULE, SIMULATOR, CONTENTION, MEMORY, PREDICTOR, STREAM),
        *(SCHEDULABILITY, MAPPED),
    )
}


def main(words: Sequence[str] | None = None) -> None:
    """Run the command line's experiment."""
    typed_hydra_command(
        "benchmarks", str(CONF / "papers"), BenchConfig, _run, ValueError, words=words
    )


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
