"""`python -m benchmarks experiment=mapped`: times of this machine, or a mapping run beside its plan."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hydra.core.hydra_config import HydraConfig

os.environ["OMP_WAIT_POLICY"] = "PASSIVE"  # read when torch is imported, which is now

from benchmarks.mapped.candidates import MappedBoard
from benchmarks.mapped.config import MappedConfig, with_recorded
from benchmarks.mapped.experiment import MAPPED
from benchmarks.mapped.needed_margin import needed_margin
from benchmarks.mapped.profile_here import profile_here
from benchmarks.mapped.run_here import EXPERIMENT, has_run, run_here
from benchmarks.pages import print_results
from benchmarks.results import PaperResults
from edgenas_core.command.hydra_command import typed_hydra_command
from edgenas_runtime.mapping.command import DOES_NOT_FIT, read_board
from edgenas_runtime.mapping.model.timing_table import TimingTable
from edgenas_runtime.mapping.printed import print_lines, wide_console

SOME_FAILED = 1

CONF = Path(__file__).parents[1] / "conf"

_REPEATED = ("tasks", "platform", "configurations", "frame_ms", "networks", "bound")
"""Settings that the suggested next command repeats."""


def main(words: Sequence[str] | None = None) -> None:
    """Run the command."""
    typed_hydra_command(
        "benchmarks", str(CONF / "mapped"), MappedConfig, _run, ValueError, words=words
    )


def _run(config: MappedConfig) -> None:
    config.check()
    console = wide_console()
    if config.profile is not None:
        if not profile_here(Path(config.profile), config, console):
            sys.exit(SOME_FAILED)
        return
    assert config.tasks is not None
    table, platform = read_board(config.tasks, config)
    board = MappedBoard(table, platform, config.bound, config.frame_ms)
    path = Path(config.out) / f"{EXPERIMENT}.json"
    _require_trusted(table, config)
    config = with_recorded(config, Path(config.tasks).with_suffix(".json"))
    if config.margin:
        config = replace(config, margins=[config.margin])

    def show(results: PaperResults) -> None:
        print_results(results, MAPPED, path, console)
        if (needed := needed_margin(results.rows)) is not None:
            print_lines(console, _next_command(needed.margin))

    if not has_run(run_here(board, config, path, console, show=show)):
        sys.exit(DOES_NOT_FIT)


def _require_trusted(table: TimingTable, config: MappedConfig) -> None:
    """Refuse to call a function that only the table names; a table may be another person's."""
    named = [name for name in table.networks if ":" in name and name not in (config.networks or ())]
    if named:
        raise ValueError(
            f"tasks={config.tasks} names {named[0]}, a function that would be imported and called; if "
            f"you trust it, give networks=[{','.join(table.networks)}] on the command line"
        )


def _next_command(margin: float) -> str:
    """Return the command that maps the same board with this margin."""
    words = [
        text
        for text in HydraConfig.get().overrides.task
        if text.lstrip("+").partition("=")[0] in _REPEATED
    ]
    return "next: " + shlex.join(
        ["python", "-m", "edgenas_runtime.map", *words, f"margin={margin:g}"]
    )
