"""`python -m runtime.bench`: Hydra composes, an experiment runs; JSON, a page and a table remain."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import hydra
from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf
from rich.console import Console
from rich.table import Table

from runtime.experiments.config import BenchConfig, Experiment
from runtime.experiments.contention import measure as contention
from runtime.experiments.dispatch import qs
from runtime.experiments.driver import Control, Step, one_line, run_steps
from runtime.experiments.faces import face_of
from runtime.experiments.layers import predicting
from runtime.experiments.placement.experiment import measure as memory
from runtime.experiments.scheduling import coschedule, decomposing, optimal, simulating
from runtime.experiments.streaming import measure as streaming
from runtime.experiments.tables import tables
from runtime.machine.facts import machine
from runtime.page.results import Results, read_results
from runtime.page.table_view import notes
from runtime.shell.runtime_exit_status import one_line_errors

CONF = str(Path(__file__).resolve().parents[2] / "conf" / "bench")
"""A folder of its own: in conf/, `experiment` is a group, the experiments of `nas.study`."""
"""By place, because a user's folder may hold a `conf` of its own."""

_STEPS: dict[Experiment, Callable[[BenchConfig], list[Step]]] = {
    Experiment.qs: qs.steps,
    Experiment.coschedule: coschedule.steps,
    Experiment.decompose: decomposing.steps,
    Experiment.simulator: simulating.steps,
    Experiment.optimum: optimal.steps,
    Experiment.contention: contention.steps,
    Experiment.memory: memory.steps,
    Experiment.predictor: predicting.steps,
    Experiment.stream: streaming.steps,
}


def main() -> None:
    """Run the command line's experiment."""
    ConfigStore.instance().store(name="bench_schema", node=BenchConfig)
    with one_line_errors("runtime.bench"):
        _hydra_main()


@hydra.main(version_base="1.3", config_path=CONF, config_name="bench")
def _hydra_main(composed: DictConfig) -> None:
    with one_line_errors("runtime.bench"):
        config = OmegaConf.to_object(composed)
        if not isinstance(config, BenchConfig):
            raise TypeError(f"composed a {type(config).__name__}, not a BenchConfig")
        config.check()
        console = Console(highlight=False, emoji=False)
        if not console.is_terminal:
            console = Console(highlight=False, emoji=False, width=160)
        _run(config, console)


def _run(config: BenchConfig, console: Console) -> None:
    folder = Path(config.out)
    if config.experiment is Experiment.page:
        _draw_all(folder, console)
        return
    settings: Any = OmegaConf.to_container(OmegaConf.structured(config), enum_to_str=True)
    results = Results(config.experiment.value, settings, machine(config.device.value))
    path = folder / f"{config.experiment.value}.json"
    try:
        steps = _STEPS[config.experiment](config)
        _announce(steps, config, console)
        control = Control(config.device, config.scale)
    except RuntimeError as error:  # of torch and CUDA: no driver, no memory left by others
        raise ValueError(
            f"device={config.device.value} cannot be measured here: {one_line(error)}"
        ) from error
    try:
        run_steps(steps, results, path, control, minutes=config.minutes_there, console=console)
    finally:  # after Ctrl-C, too
        with suppress(RuntimeError):  # of a GPU that is lost, as the results say
            control.close()
        tell(results, path, console)


def _announce(steps: list[Step], config: BenchConfig, console: Console) -> None:
    names = ", ".join(step.name for step in steps)
    console.print(
        f"experiment={config.experiment.value}, device={config.device.value}, about "
        f"{config.minutes_there:g} minutes at most (minutes= changes that), {len(steps)} "
        f"step{'s' * (len(steps) != 1)}: {names}",
        soft_wrap=True,
        markup=False,
    )


def tell(results: Results, path: Path, console: Console) -> None:
    """Prints what was found, and draws the page beside the results."""
    face = face_of(results)
    for said in filter(None, (face.stand_in(results.settings), face.simulated(results.rows))):
        console.print(said, soft_wrap=True, markup=False)
    shown = tables(results)
    for one in shown:
        table = Table(title=one.title, title_justify="left", box=None, pad_edge=False)
        for i, name in enumerate(one.header):
            table.add_column(
                name, justify="left" if i < one.names else "right", no_wrap=i < one.names
            )
        for row in one.rows:
            table.add_row(*(str(cell) for cell in row))
        console.print(table)
    for note in notes(shown):
        console.print(note, soft_wrap=True, markup=False)
    for error in dict.fromkeys(row["error"] for row in results.rows if row.get("error")):
        console.print(f"failed: {error}", soft_wrap=True, markup=False)
    if results.not_measured:
        console.print(
            f"no time was left for {', '.join(results.not_measured)}; minutes= gives more",
            soft_wrap=True,
            markup=False,
        )
    if results.cut_short:
        console.print(
            f"the time ended in {', '.join(results.cut_short)}, which has fewer rounds; minutes= "
            "gives more",
            soft_wrap=True,
            markup=False,
        )
    flagged, timed = face.flagged(results.rows)
    if flagged:
        console.print(f"{flagged} of {timed} rows flagged: the machine was not quiet")
    console.print(f"-> {path}{_draw(results, path)}", soft_wrap=True)


def _draw(results: Results, path: Path) -> str:
    """The page beside the results, where there is what draws it."""
    if find_spec("plotly") is None:
        return "; for its page install plotly and run experiment=page"
    from runtime.experiments.pages import page  # noqa: PLC0415 - for those who have it

    drawn = path.with_suffix(".html")
    drawn.write_text(page(results).html(), encoding="utf-8")
    return f", {drawn}"


def _draw_all(folder: Path, console: Console) -> None:
    if folder.is_file():
        raise ValueError(f"out={folder} is a file; name the folder in which the results lie")
    paths = sorted(folder.glob("*.json"))
    if not paths:
        raise ValueError(f"out={folder} holds no results; measure an experiment first")
    skipped = []
    for path in paths:
        try:
            results = read_results(path)
            _require_shown(results, path)
        except (ValueError, OSError) as error:  # a profile of the memory experiment lies here too
            skipped.append(str(error))
            continue
        tell(results, path, console)
    if len(skipped) == len(paths):
        more = f", nor do {len(skipped) - 1} more files there" if len(skipped) > 1 else ""
        raise ValueError(f"{skipped[0]}{more}; measure an experiment first")
    for one in skipped:
        console.print(f"skipped: {one}", soft_wrap=True, markup=False)


def _require_shown(results: Results, path: Path) -> None:
    """Refuse what was not written by this program, or by another version of it.

    Raises:
      ValueError: naming the file, if there is no such experiment, or its rows are not of its kind.
    """
    try:
        face = face_of(results)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    try:
        face.tables(results.rows)
        face.figures(results.rows)
        face.key_figures(results.rows)
        face.simulated(results.rows)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise ValueError(
            f"{path} holds rows that experiment={results.experiment} does not have "
            f"({one_line(error)})"
        ) from error
