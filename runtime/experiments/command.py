"""`python -m runtime.bench`: an experiment leaves a JSON file, a page and tables in the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from rich.console import Console

from runtime.experiments.config import BenchConfig, Experiment
from runtime.experiments.registry import EXPERIMENTS, view_of
from runtime.machine.description import experiment_facts
from runtime.page.print import print_results, wide_console
from runtime.page.results import Results, read_results
from runtime.page.view import View
from runtime.shell.hydra_command import typed_hydra_command


def main() -> None:
    """Run the command line's experiment."""
    # in a folder of its own: in conf/, `experiment` is the group of the presets of nas.study
    typed_hydra_command("runtime.bench", "bench/bench", BenchConfig, _run, ValueError)


def _run(config: BenchConfig) -> None:
    config.check()
    console = wide_console()
    folder = Path(config.out)
    if config.experiment is Experiment.page:
        _draw_all(folder, console)
        return
    name = config.experiment.value
    settings: Any = OmegaConf.to_container(OmegaConf.structured(config), enum_to_str=True)
    results = Results(name, settings, experiment_facts(config.device.value))
    path = folder / f"{name}.json"
    try:
        EXPERIMENTS[name].measure(config, results, path, console)
    finally:  # after Ctrl-C, too
        if results.rows or results.controls or results.not_measured:
            print_results(results, EXPERIMENTS[name].view, path, console)


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
    for one in skipped:
        console.print(f"skipped: {one}", soft_wrap=True, markup=False)


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
