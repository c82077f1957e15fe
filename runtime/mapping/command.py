"""`python -m runtime.map`: maps the networks of a board and prints the slack for one more."""

from __future__ import annotations

import json
import math
import os
import shlex
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from rich.console import Console
from rich.table import Table
from rich.text import Text

from runtime.mapping.board_files import read_board
from runtime.mapping.config import MapConfig, ProfileConfig
from runtime.mapping.model.platform_description import Platform
from runtime.mapping.solving.program import Answer
from runtime.mapping.solving.slack import FrameAnalysis, Slack, analyse_frame
from runtime.page.print import print_results, wide_console
from runtime.page.results import Results
from runtime.shell.hydra_command import typed_hydra_command

DOES_NOT_FIT = 1

SOME_FAILED = 1

_RUN_SETTINGS = ("run", "running", "profiling", "margin", "json")
"""Settings that the suggested next command does not repeat."""


def main() -> None:
    """Run the command."""
    typed_hydra_command("runtime.map", "map", MapConfig, _map, ValueError)


def _map(config: MapConfig) -> None:
    config.check()
    console = wide_console()
    if config.profile is not None:
        _profile(Path(config.profile), config.profiling, console)
    if config.tasks is not None and config.run is not None:
        _run(config.tasks, Path(config.run), config, console)
    elif config.tasks is not None:
        _answer(config.tasks, config, console)


def _profile(path: Path, config: ProfileConfig, console: Console) -> None:
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"  # read when torch is imported, which is now
    from runtime.mapping.profiling.profile_here import profile_here  # noqa: PLC0415 - imports torch

    if not profile_here(path, config, console):
        sys.exit(SOME_FAILED)


def _run(tasks: str, folder: Path, config: MapConfig, console: Console) -> None:
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"  # as for a profile
    from runtime.mapping.running.needed_margin import needed_margin  # noqa: PLC0415 - imports torch
    from runtime.mapping.running.run_here import EXPERIMENT, has_run, recorded_settings, run_here  # noqa: PLC0415 - likewise
    from runtime.mapping.running.view import MAPPED  # noqa: PLC0415 - likewise
    from runtime.mapping.solving.candidates import Board  # noqa: PLC0415 - likewise

    table, platform = read_board(tasks, config)
    board = Board(table, platform, config.bound, config.frame_ms)
    path = folder / f"{EXPERIMENT}.json"
    profiling = recorded_settings(Path(tasks).with_suffix(".json"), config.profiling)
    if config.json:
        console = Console(quiet=True)
    running = replace(config.running, margins=[config.margin]) if config.margin else config.running

    def show(results: Results) -> None:
        print_results(results, MAPPED, path, console)
        if (needed := needed_margin(results.rows)) is not None:
            console.print(_next_command(needed.margin), soft_wrap=True, markup=False)

    results = run_here(board, running, profiling, path, console, show=show)
    if config.json:
        sys.stdout.write(results.json())
    if not has_run(results):
        sys.exit(DOES_NOT_FIT)


def _next_command(margin: float) -> str:
    """Return the current command with this margin and without running the frame."""
    words = [
        text
        for text in HydraConfig.get().overrides.task
        if text.lstrip("+").partition("=")[0].partition(".")[0] not in _RUN_SETTINGS
    ]
    return "next: " + shlex.join(["python", "-m", "runtime.map", *words, f"margin={margin:g}"])


def _answer(tasks: str, config: MapConfig, console: Console) -> None:
    table, platform = read_board(tasks, config)
    times_ms = (1 + config.margin) * table.of(config.bound)
    found = analyse_frame(
        table.networks, times_ms, table.configurations, platform, frame_ms=config.frame_ms
    )
    if config.json:
        sys.stdout.write(_json(config, platform, found))
    else:
        _print(config, platform, found, console)
    if found.answer is not Answer.feasible:
        sys.exit(DOES_NOT_FIT)


def _rounded_down(ms: float) -> str:
    """Format with three decimals, rounded down, because a limit must not exceed the slack."""
    return f"{math.floor(1e3 * ms + 1e-6) / 1e3:.3f}"


def _json(config: MapConfig, platform: Platform, found: FrameAnalysis) -> str:
    content: dict[str, Any] = {
        "platform": platform.name,
        "frame_ms": config.frame_ms,
        "bound": config.bound.value,
        "margin": config.margin,
        "answer": found.answer.value,
        "why": found.infeasibility,
        "timetable": [asdict(run) for run in found.timetable],
        "left": [{**asdict(slack), "search": _search(slack)} for slack in found.slack],
    }
    return json.dumps(content, indent=1) + "\n"


def _search(slack: Slack) -> str | None:
    limit_ms = _rounded_down(slack.ms).rstrip("0").rstrip(".")
    return f"python -m nas.search T={limit_ms}ms device=..." if limit_ms != "0" else None


def _print(config: MapConfig, platform: Platform, found: FrameAnalysis, console: Console) -> None:
    frame = f"frame of {config.frame_ms:g} ms, {config.bound.value} of the times"
    if config.margin:
        frame += f" plus {100 * config.margin:g} %"
    console.print(f"{platform.name}: {frame}", soft_wrap=True, markup=False)
    if found.answer is not Answer.feasible:
        console.print(
            f"infeasible: the networks have no mapping; {found.infeasibility}"
            if found.answer is Answer.infeasible
            else "unknown: the solver reached its time limit without a mapping or a proof",
            soft_wrap=True,
            markup=False,
        )
        return
    mapping = _columns("On the board", ("network", "configuration", "on"), ("from ms", "to ms"))
    for run in sorted(found.timetable, key=lambda run: (run.start_ms, run.place)):
        from_to = (f"{run.start_ms:.2f}", f"{run.end_ms:.2f}")
        _add(mapping, run.network, run.configuration, run.place, *from_to)
    console.print(mapping)
    free = _columns("Slack for one more network", ("on", "configuration"), ("ms", "next"))
    rows: dict[tuple[str, str, str], list[str]] = {}
    for slack in sorted(found.slack, key=lambda slack: -slack.ms):
        up_to = "" if slack.most_ms <= slack.ms else f" to {slack.most_ms:.3f}"
        row = (
            _some(slack.configurations),
            f"{_rounded_down(slack.ms)}{up_to}",
            _search(slack) or "",
        )
        rows.setdefault(row, []).extend(slack.places)
    for row, places in rows.items():
        _add(free, " or ".join(places), *row)
    console.print(free)
    console.print(
        "each row holds alone, because the other networks move to make room; search on a device whose "
        "times were taken in that configuration"
    )


def _some(names: tuple[str, ...]) -> str:
    first = ", ".join(names[:3])
    return first if len(names) <= 3 else f"{first} and {len(names) - 3} more"


def _add(table: Table, *cells: str) -> None:
    """Add a row of plain texts, because brackets in a user's name are not markup."""
    table.add_row(*map(Text, cells))


def _columns(title: str, names: tuple[str, ...], numbers: tuple[str, ...]) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for name in names:
        table.add_column(name)
    for name in numbers:
        table.add_column(name, justify="left" if name == "next" else "right", no_wrap=True)
    return table
