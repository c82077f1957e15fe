"""Main figures of a study as tables on the terminal, and its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table

from edgenas_core.command.console import say
from nas.study.config import Axis
from nas.study.evaluation.results import Results
from nas.study.evaluation.statistics import no_intervals, text_of, with_intervals
from nas.study.plan import Setting

SHOWN = {
    Axis.reward: {
        "gap": "gap (points)",
        "best_accuracy": "best (%)",
        "settled": "samples until within T",
        "feasible_share": "share within T",
    },
    Axis.controller: {
        "gap_at_200_queries": "gap at 200 queries",
        "best_at_200_queries": "best at 200 queries (%)",
        "gap": "gap (points)",
        "best_accuracy": "best (%)",
        "queries_to_optimum": "queries to optimum",
    },
}
"""Measures on the terminal with short titles, by the compared axis."""


def print_results(
    console: Console, results: Results, sentences: Sequence[str], *, with_problems: bool = True
) -> None:
    """Print medians with their intervals, one table per problem, and the answer."""
    config = results.config
    titles = {
        name: title
        for name, title in SHOWN[config.compare].items()
        if name in {measure.name for measure in results.measures}
    }
    settings = results.default_settings if with_problems else []
    if warning := no_intervals(len(results.seeds)):
        say(console, f"warning: {warning}")
    if settings:
        _print_settings(console, results, settings, titles)
    grid = sum(bool(setting.overrides) for setting in results.values)
    if grid:
        console.print(f"and {grid} settings of the grid, in the files")
    for sentence in sentences:
        say(console, sentence)


def _print_settings(
    console: Console, results: Results, settings: Sequence[Setting], titles: Mapping[str, str]
) -> None:
    seeds, budget = len(results.seeds), results.config.budget
    unit = f"best is the most accurate network within T after {budget:,} samples"
    if not results.why_not_exact:
        unit = f"gaps are points below the {results.optimum} within T after {budget:,} samples"
    say(console, f"medians over {seeds} seeds{with_intervals(seeds)}; {unit}")
    for device, limit_ms in dict.fromkeys(
        (setting.device, setting.limit_ms) for setting in settings
    ):
        table = Table(box=None, header_style="bold", pad_edge=False)
        table.add_column("")
        for title in titles.values():
            table.add_column(title, justify="right", no_wrap=True)
        for setting in settings:
            if (setting.device, setting.limit_ms) == (device, limit_ms):
                medians = results.medians[setting]
                table.add_row(
                    results.name(setting), *(text_of(medians[measure]) for measure in titles)
                )
        console.print(f"{device}, T = {limit_ms:g} ms", style="bold", soft_wrap=True)
        console.print(table)
