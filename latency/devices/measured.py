"""Which device is meant, and what was measured on it: columns of CSV tables, and our own tables."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import final

import numpy as np
from jaxtyping import Bool, Float64
from numpy import ndarray

from latency.devices.bundled import read_shipped, shipped_paths
from latency.devices.registry import (
    SITUATED,
    Device,
    find,
    id_of_statistic,
    registered,
    solo_id,
    unregistered,
)
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.spaces.nas_bench_201.space import NAS_BENCH_201, TASKS
from runtime.machine.timing import Statistic
from runtime.network.task import Task
from runtime.shell.errors import UserError
from runtime.shell.keyed_table import (
    PREDICTED,
    CsvTable,
    data_folder,
    header,
    latency_files,
    read_csv_table,
)

NEAR_ZERO_MS = 0.1
"""Less than any runtime needs to run the layers around the cells."""


@final
@dataclass(frozen=True)
class MeasuredLatency:
    """One column of a table, checked: every latency is positive."""

    path: Path
    values_ms: Float64[ndarray, "15625"]  # in official order; NaN: not measured
    predicted_ms: Float64[ndarray, "15625"] | None = None  # by `nas.transfer`, in the same file

    @property
    def cells(self) -> int:
        """How many cells were measured."""
        return int(np.isfinite(self.values_ms).sum())

    @property
    def flaws(self) -> tuple[str, ...]:
        """What its source published and a user should know: kept, not repaired."""
        empty = int(((self.values_ms < NEAR_ZERO_MS) & without_path()).sum())
        if not empty:
            return ()
        return (f"{empty} cells without a path from input to output are under {NEAR_ZERO_MS} ms",)


def device_named(name: str, statistic: Statistic = Statistic.median) -> Device:
    """The device of an id, of a column's name, or of a column in the user's own file.

    With another statistic than the median it is the device of that statistic, `<id>@p95`, which is
    also found by that id.

    Raises:
      UserError: if there is none; it offers the nearest names.
    """
    name, statistic = _without_statistic(name, statistic)
    device = find(name)
    columns = tuple(latency_files(data_folder(), SPACE))
    if device is None and {name, id_of_statistic(name, statistic)} & set(columns):
        device = unregistered(name)
    if device is not None:
        return device.of(statistic)
    if in_situations := situations(name):
        raise UserError(
            f"{name} was measured in situations only ({', '.join(in_situations)}), and what was not "
            f"measured in one is predicted from the latency alone; measure that too, with the same "
            f"`python -m nas.measure` without scenario= (docs/how-to/search-in-a-scenario.md)"
        )
    known = {n for device in registered() for n in (device.id, device.column)}.union(columns)
    nearest = get_close_matches(name, sorted(known), cutoff=0.4)
    offer = f"; the nearest are {', '.join(nearest)}" if nearest else ""
    ignored = [path.name for path in sorted(data_folder().glob("*.csv")) if not header(path)]
    passed = (
        f"; {', '.join(ignored)} was passed over for want of a column 'arch'" if ignored else ""
    )
    raise UserError(
        f"device {name!r} is not known{offer}{passed}; `python -m nas.data list` lists all"
    )


def _without_statistic(name: str, statistic: Statistic) -> tuple[str, Statistic]:
    alone, _, said = name.rpartition("@")
    if not alone or said not in {Statistic.p95.value, Statistic.p99.value}:
        return name, statistic
    if statistic not in {Statistic.median, Statistic(said)}:
        raise UserError(
            f"device={name} is of {said}, but latency.statistic={statistic.value}; say one of the two"
        )
    return alone, Statistic(said)


def situations(alone: str | None = None) -> tuple[str, ...]:
    """Ids of all devices in a situation that a table is there of, or of one of them only.

    Raises:
      UserError: if the data folder's tables cannot be told apart.
    """
    names = {**latency_files(data_folder(), SPACE), **shipped_paths()}
    found = (name for name in names if SITUATED in name and "@" not in name)
    return tuple(sorted(name for name in found if alone in {None, solo_id(name)}))


def measured_on(device: Device) -> MeasuredLatency | None:
    """What is held of a device: its column in the data folder, else its table in the package.

    None where there is neither.

    Raises:
      UserError: if a file is malformed, or a latency is not positive.
    """
    files = latency_files(data_folder(), SPACE)
    path = files.get(device.column) or files.get(device.id)
    if path is None:
        return _shipped(device)
    column = device.column if path == files.get(device.column) else device.id
    table = read_csv_table(path, SPACE)
    predicted = f"{column}{PREDICTED}"
    return MeasuredLatency(
        path,
        _positive(table, column),
        _positive(table, predicted) if predicted in table.columns else None,
    )


def _positive(table: CsvTable, column: str) -> Float64[ndarray, "15625"]:
    values_ms = table.column(column)
    wrong = values_ms <= 0
    if wrong.any():
        first = int(np.argmax(wrong))
        raise UserError(
            f"{table.path}: {column} of {NAS_BENCH_201.strings[first]} is "
            f"{values_ms[first]:g} ms; a latency is positive, a cell not measured is left empty"
        )
    return values_ms


def _shipped(device: Device) -> MeasuredLatency | None:
    """Our own table of a device; the cells that were not timed are not in it."""
    paths = {
        id_of_statistic(name, device.statistic): path for name, path in shipped_paths().items()
    }
    path = paths.get(device.id)
    if path is None:
        return None
    table = read_shipped(path)
    values_ms = np.full(NAS_BENCH_201.size, np.nan)
    values_ms[table.index] = {
        Statistic.median: table.median_ms,
        Statistic.p95: table.p95_ms,
        Statistic.p99: table.p99_ms,
    }[device.statistic]
    return MeasuredLatency(path, values_ms)


@cache
def without_path() -> Bool[ndarray, "15625"]:
    """Which cells have no path from input to output, in official order; 341 of them."""
    live = NAS_BENCH_201.live_edges(NAS_BENCH_201.rows)
    return np.logical_not(live.any(axis=-1))


def input_caveats(device: Device, task: Task) -> list[str]:
    """What to know where the search's data set is not the one that was timed."""
    if device.dataset is None:
        return ["input size not stated by the source"]
    timed = TASKS[device.dataset]
    if timed == task:
        return []
    if timed.image_side != task.image_side:
        sides = f"{timed.image_side} pixels wide, not {task.image_side}"
        return [f"measured for {timed.name}, on images {sides}"]
    return [f"measured for {timed.name}: same input, another last layer"]
