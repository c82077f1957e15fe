"""`python -m edgenas_runtime.map`: maps the networks of a board and prints the slack for one more.

conf/map.yaml holds the defaults of its settings.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table
from rich.text import Text

from edgenas_core.command.hydra_command import typed_hydra_command
from edgenas_core.types.errors import did_you_mean
from edgenas_core.types.units import MOST_MS
from edgenas_runtime.mapping.model.platform_description import Platform, read_platform
from edgenas_runtime.mapping.model.timing_table import (
    XAVIER,
    Bound,
    TimingTable,
    read_timing_table,
    xavier_platform,
    xavier_times,
)
from edgenas_runtime.mapping.printed import print_lines, wide_console
from edgenas_runtime.mapping.solving.program import Feasibility
from edgenas_runtime.mapping.solving.slack import FrameAnalysis, Slack, analyse_frame

MOST_MARGIN = 100


@dataclass
class BoardConfig:
    """The networks of a board, and how their times are read."""

    tasks: str | None
    platform: str | None
    configurations: list[str] | None
    frame_ms: float
    networks: list[str] | None
    bound: Bound
    margin: float

    def check(self) -> None:
        """Check the settings.

        Raises:
          ValueError: naming the value and what is allowed.
        """
        if not 0 < self.frame_ms <= MOST_MS:
            raise ValueError(
                f"frame_ms={self.frame_ms} must be above 0 and at most {MOST_MS:g}, milliseconds"
            )
        if not 0 <= self.margin <= MOST_MARGIN:
            raise ValueError(f"margin={self.margin} must be 0 to {MOST_MARGIN}; 0.1 adds 10 %")


@final
@dataclass
class MapConfig(BoardConfig):
    """All settings of `python -m edgenas_runtime.map`."""

    json: bool

    def check(self) -> None:
        """Check the settings.

        Raises:
          ValueError: naming the value and what is allowed.
        """
        super().check()
        if self.tasks is None:
            raise ValueError("tasks= is missing: the timing table of the networks, <table>.csv")


_CONF = Path(__file__).parents[1] / "conf"

DOES_NOT_FIT = 1


def main(words: Sequence[str] | None = None) -> None:
    """Run the command."""
    typed_hydra_command(
        "edgenas_runtime.map", str(_CONF / "map"), MapConfig, _map, ValueError, words=words
    )


def _map(config: MapConfig) -> None:
    config.check()
    console = wide_console()
    assert config.tasks is not None
    _answer(config.tasks, config, console)


def _answer(tasks: str, config: MapConfig, console: Console) -> None:
    table, platform = read_board(tasks, config)
    times_ms = (1 + config.margin) * table.of(config.bound)
    analysis = analyse_frame(
        table.networks,
        times_ms,
        table.configurations,
        platform,
        frame_ms=config.frame_ms,
        watched=lambda places: track(
            places,
            "slack of each place",
            console=console,
            transient=True,
            disable=config.json or not console.is_terminal,
        ),
    )
    if config.json:
        sys.stdout.write(_json(config, platform, analysis))
    else:
        _print(config, platform, analysis, console)
    if analysis.answer is not Feasibility.feasible:
        sys.exit(DOES_NOT_FIT)


def _rounded_down(ms: float) -> str:
    """Format with three decimals, rounded down, because a limit must not exceed the slack."""
    return f"{math.floor(1e3 * ms + 1e-6) / 1e3:.3f}"


def _json(config: MapConfig, platform: Platform, analysis: FrameAnalysis) -> str:
    content: dict[str, Any] = {
        "platform": platform.name,
        "frame_ms": config.frame_ms,
        "bound": config.bound.value,
        "margin": config.margin,
        "answer": analysis.answer.value,
        "why": analysis.infeasibility,
        "timetable": [asdict(run) for run in analysis.timetable],
        "left": [{**asdict(slack), "search": _search(slack)} for slack in analysis.slack],
        "interrupted": len(analysis.slack) < analysis.places,
    }
    return json.dumps(content, indent=1) + "\n"


def _search(slack: Slack) -> str | None:
    limit_ms = _rounded_down(slack.ms).rstrip("0").rstrip(".")
    return f"python -m nas.search T={limit_ms}ms device=..." if limit_ms != "0" else None


def _print(
    config: MapConfig, platform: Platform, analysis: FrameAnalysis, console: Console
) -> None:
    frame = f"frame of {config.frame_ms:g} ms, {config.bound.value} of the times"
    if config.margin:
        frame += f" plus {100 * config.margin:g} %"
    print_lines(console, f"{platform.name}: {frame}")
    if analysis.answer is not Feasibility.feasible:
        print_lines(
            console,
            f"infeasible: the networks have no mapping; {analysis.infeasibility}"
            if analysis.answer is Feasibility.infeasible
            else "unknown: the solver reached its time limit without a mapping or a proof",
        )
        return
    mapping = _columns("On the board", ("network", "configuration", "on"), ("from ms", "to ms"))
    for run in sorted(analysis.timetable, key=lambda run: (run.start_ms, run.place)):
        from_to = (f"{run.start_ms:.2f}", f"{run.end_ms:.2f}")
        _add(mapping, run.network, run.configuration, run.place, *from_to)
    console.print(mapping)
    free = _columns("Slack for one more network", ("on", "configuration"), ("ms", "next"))
    rows: dict[tuple[str, str, str], list[str]] = {}
    for slack in sorted(analysis.slack, key=lambda slack: -slack.ms):
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
    if len(analysis.slack) < analysis.places:
        print_lines(
            console,
            f"interrupted: the slack of {len(analysis.slack)} of {analysis.places} places is known",
        )
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


def read_board(tasks: str, config: BoardConfig) -> tuple[TimingTable, Platform]:
    """Read the networks of a board and the platform that they may run on.

    Raises:
      OSError: if a file cannot be read.
      ValueError: if a file is missing or invalid, or the table has times in a configuration that the
        platform lacks.
    """
    whole = xavier_times() if tasks == XAVIER else read_timing_table(_file("tasks", tasks, XAVIER))
    platform = _platform(tasks, config.platform)
    table = whole if config.networks is None else whole.chosen(config.networks)
    _check_known(tasks, table, platform)
    if config.configurations is not None:
        platform = platform.restricted(config.configurations)
    return table, _with_times(tasks, whole, platform)


def _platform(tasks: str, name: str | None) -> Platform:
    if name == XAVIER or (name is None and tasks == XAVIER):
        return xavier_platform()
    if name is not None:
        return read_platform(_file("platform", name, XAVIER))
    beside = Path(tasks).with_suffix(".yaml")
    if not beside.exists():
        raise ValueError(
            f"{beside}, the description of the units, does not exist; write it, or give another as "
            "platform=<file>.yaml"
        )
    return read_platform(beside)


def _file(setting: str, name: str, *names: str) -> Path:
    """Return the path of an existing file; the error lists the names that exist."""
    path = Path(name)
    if path.exists():
        return path
    suffix = ".csv" if setting == "tasks" else ".yaml"
    beside = sorted(str(file) for file in path.parent.glob(f"*{suffix}"))
    files = f" or {', '.join(beside[:8])}" if beside else f"; there is no {suffix} file"
    raise ValueError(
        f"{setting}={name} does not exist; use {', '.join(names)}{files}"
        f"{did_you_mean(name, [*names, *beside])}"
    )


def _check_known(tasks: str, table: TimingTable, platform: Platform) -> None:
    """Refuse times in an unknown configuration, which would be ignored silently."""
    for at, name in enumerate(table.configurations):
        (timed,) = np.nonzero(~np.isnan(table.ms[:, at, 1]))
        if len(timed) and name not in platform.configurations:
            raise ValueError(
                f"{tasks}: {table.networks[timed[0]]},{name} has times, but {name} is not a "
                f"configuration of {platform.name}: {', '.join(platform.configurations)}"
                f"{did_you_mean(name, [*platform.configurations])}"
            )


def _with_times(tasks: str, table: TimingTable, platform: Platform) -> Platform:
    """Drop configurations that are in the table without a time of any network.

    They were tried without success; configurations missing from the table may serve one more network.
    """
    empty = np.isnan(table.ms[:, :, 1]).all(0)
    failed = {name for name, is_empty in zip(table.configurations, empty, strict=True) if is_empty}
    kept = [name for name in platform.configurations if name not in failed]
    if not kept:
        raise ValueError(f"{tasks}: no network has a time in a configuration of {platform.name}")
    return platform.restricted(kept)
