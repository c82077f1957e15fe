"""`python -m runtime.map`: reads the networks on a board, tells what is left for one more."""

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

_OF_A_RUN = ("run", "running", "profiling", "margin", "json")
"""Settings that the next question has no use for."""


def main() -> None:
    """Run the command line's question."""
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
    from runtime.mapping.solving.candidates import Board  # noqa: PLC0415 - of this use only

    table, platform = read_board(tasks, config)
    board = Board(table, platform, config.bound, config.frame_ms)
    path = folder / f"{EXPERIMENT}.json"
    made_as = recorded_settings(Path(tasks).with_suffix(".json"), config.profiling)
    if config.json:
        console = Console(quiet=True)
    running = replace(config.running, margins=[config.margin]) if config.margin else config.running

    def told(results: Results) -> None:
        print_results(results, MAPPED, path, console)
        if (needed := needed_margin(results.rows)) is not None:
            console.print(_next_question(needed.margin), soft_wrap=True, markup=False)

    results = run_here(board, running, made_as, path, console, tell=told)
    if config.json:
        sys.stdout.write(results.json())
    if not has_run(results):
        sys.exit(DOES_NOT_FIT)


def _next_question(margin: float) -> str:
    """What was asked, with this margin and without running it."""
    asked = [
        text
        for text in HydraConfig.get().overrides.task
        if text.lstrip("+").partition("=")[0].partition(".")[0] not in _OF_A_RUN
    ]
    return "next: " + shlex.join(["python", "-m", "runtime.map", *asked, f"margin={margin:g}"])


def _answer(tasks: str, config: MapConfig, console: Console) -> None:
    table, platform = read_board(tasks, config)
    times_ms = (1 + config.margin) * table.of(config.bound)
    found = analyse_frame(
        table.networks, times_ms, table.configurations, platform, frame_ms=config.frame_ms
    )
    if config.json:
        sys.stdout.write(_json(config, platform, found))
    else:
        _tell(config, platform, found, console)
    if found.answer is not Answer.feasible:
        sys.exit(DOES_NOT_FIT)


def _down(ms: float) -> str:
    """With three decimals, rounded down: a limit must not be more than there is."""
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
        "left": [{**asdict(left), "search": _search(left)} for left in found.slack],
    }
    return json.dumps(content, indent=1) + "\n"


def _search(left: Slack) -> str | None:
    limit_ms = _down(left.ms).rstrip("0").rstrip(".")
    return f"python -m nas.search T={limit_ms}ms device=..." if limit_ms != "0" else None


def _tell(config: MapConfig, platform: Platform, found: FrameAnalysis, console: Console) -> None:
    what = f"frame of {config.frame_ms:g} ms, {config.bound.value} of the times"
    if config.margin:
        what += f" and {100 * config.margin:g} %"
    console.print(f"{platform.name}: {what}", soft_wrap=True, markup=False)
    if found.answer is not Answer.feasible:
        console.print(
            f"the networks do not fit: there is no mapping; {found.infeasibility}"
            if found.answer is Answer.infeasible
            else "no mapping was found in the time allowed, nor a proof that there is none",
            soft_wrap=True,
            markup=False,
        )
        return
    there = _columns("On the board", ("network", "runs as", "on"), ("from ms", "to ms"))
    for run in sorted(found.timetable, key=lambda run: (run.start_ms, run.place)):
        from_to = (f"{run.start_ms:.2f}", f"{run.end_ms:.2f}")
        _add(there, run.network, run.configuration, run.place, *from_to)
    console.print(there)
    more = _columns("Slack for one more network", ("on", "as"), ("ms", "next"))
    rows: dict[tuple[str, str, str], list[str]] = {}
    for left in sorted(found.slack, key=lambda left: -left.ms):
        at_least = "" if left.most_ms <= left.ms else f" to {left.most_ms:.3f}"
        row = (
            _some(left.configurations),
            f"{_down(left.ms)}{at_least}",
            _search(left) or "",
        )
        rows.setdefault(row, []).extend(left.places)
    for row, places in rows.items():
        _add(more, " or ".join(places), *row)
    console.print(more)
    console.print(
        "one of these, not all: the others make room for it; search on a device whose times were "
        "taken in that configuration"
    )


def _some(names: tuple[str, ...]) -> str:
    told = ", ".join(names[:3])
    return told if len(names) <= 3 else f"{told} and {len(names) - 3} more"


def _add(table: Table, *cells: str) -> None:
    """As texts: brackets in a user's name are no markup."""
    table.add_row(*map(Text, cells))


def _columns(title: str, names: tuple[str, ...], numbers: tuple[str, ...]) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for name in names:
        table.add_column(name)
    for name in numbers:
        table.add_column(name, justify="left" if name == "next" else "right", no_wrap=True)
    return table
