"""Reads the timing table and the platform of a board, and checks that they fit together."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

import numpy as np

from runtime.mapping.config import MapConfig
from runtime.mapping.model.bundled import XAVIER, xavier_platform, xavier_times
from runtime.mapping.model.platform_description import Platform, read_platform
from runtime.mapping.model.this_machine import this_machine
from runtime.mapping.model.timing_table import TimingTable, read_timing_table

THIS = "this"


def read_board(tasks: str, config: MapConfig) -> tuple[TimingTable, Platform]:
    """Read the networks of a board and the platform that they may run on.

    Raises:
      OSError: if a file cannot be read.
      ValueError: if a file is missing or invalid, or the table has times in a configuration that the
        platform lacks.
    """
    whole = xavier_times() if tasks == XAVIER else read_timing_table(_file("tasks", tasks, XAVIER))
    platform = _platform(tasks, config.platform, whole)
    table = whole if config.networks is None else whole.chosen(config.networks)
    _check_known(tasks, table, platform)
    if config.configurations is not None:
        platform = platform.restricted(config.configurations)
    return table, _with_times(tasks, whole, platform)


def _platform(tasks: str, name: str | None, table: TimingTable) -> Platform:
    beside = Path(tasks).with_suffix(".yaml")
    if name == XAVIER or (name is None and tasks == XAVIER):
        return xavier_platform()
    if name == THIS:
        return this_machine(table.configurations)
    if name is not None:
        return read_platform(_file("platform", name, XAVIER, THIS))
    if beside.exists():
        return read_platform(beside)
    try:
        return this_machine(table.configurations)
    except ValueError as error:
        raise ValueError(
            f"{beside}, the description of the units, does not exist; write it, or give another as "
            "platform=<file>.yaml; without it, configurations must be variants of this machine: "
            f"{error}"
        ) from error


def _file(setting: str, name: str, *known: str) -> Path:
    """Return the path of an existing file; the error lists the names that exist."""
    path = Path(name)
    if path.exists():
        return path
    suffix = ".csv" if setting == "tasks" else ".yaml"
    beside = sorted(str(one) for one in path.parent.glob(f"*{suffix}"))
    files = f" or {', '.join(beside[:8])}" if beside else f"; there is no {suffix} file"
    raise ValueError(
        f"{setting}={name} does not exist; use {', '.join(known)}{files}"
        f"{_meant(name, [*known, *beside])}"
    )


def _meant(name: str, known: Sequence[str]) -> str:
    near = get_close_matches(name, known, 1)
    return f"; did you mean {near[0]}?" if near else ""


def _check_known(tasks: str, table: TimingTable, platform: Platform) -> None:
    """Refuse times in an unknown configuration, which would be ignored silently."""
    for at, name in enumerate(table.configurations):
        (timed,) = np.nonzero(~np.isnan(table.ms[:, at, 1]))
        if len(timed) and name not in platform.configurations:
            raise ValueError(
                f"{tasks}: {table.networks[timed[0]]},{name} has times, but {name} is not a "
                f"configuration of {platform.name}: {', '.join(platform.configurations)}"
                f"{_meant(name, [*platform.configurations])}"
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
