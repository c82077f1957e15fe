"""Measured latencies of a device: a column of a CSV table, or a bundled table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import final

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from edgenas_core.files.keyed_table import (
    HIGH,
    JOURNAL_SUFFIX,
    PREDICTED,
    CsvTable,
    belongs,
    data_folder,
    header,
    latency_files,
    left_out,
    read_csv_table,
)
from edgenas_core.files.time_unit import TimeUnit, stated_unit, to_ms
from edgenas_core.machine.timing import Statistic
from edgenas_core.types.architectures import Enumerable
from edgenas_core.types.errors import UserError
from edgenas_core.types.task import Task
from edgenas_core.types.units import LEAST_MS, MOST_MS, require_ms
from latency.base import Space, every_architecture
from latency.devices.bundled import bundled_paths, read_bundled
from latency.devices.registry import (
    SCENARIO_MARK,
    TimedDevice,
    find,
    id_of_statistic,
    registered,
    slug_of,
    solo_id,
    unregistered,
)

NEAR_ZERO_MS = 0.1
"""Below the time that any runtime needs to start a network."""


@final
@dataclass(frozen=True)
class MeasuredLatency:
    """One column of a table, checked: every latency is positive.

    The rows are all architectures of the space, in the order of their numbers, if they have numbers;
    else those of the table.
    """

    path: Path
    architectures: Int64[ndarray, "n D"]
    values_ms: Float64[ndarray, "n"]  # NaN: not measured
    predicted_ms: Float64[ndarray, "n"] | None = None  # by `nas.transfer`, in the same file
    states_unit: bool = True  # in the name of the column or of the file, or by the user
    high_ms: Float64[ndarray, "n"] | None = None  # upper ends of their 90 % intervals

    @property
    def count(self) -> int:
        """Number of measured architectures."""
        return int(np.isfinite(self.values_ms).sum())

    @property
    def flaws(self) -> tuple[str, ...]:
        """Doubtful numbers that its source published, in words; they are kept as they are."""
        near_zero = int((self.values_ms < NEAR_ZERO_MS).sum())
        flaws = [f"{near_zero} of them are under {NEAR_ZERO_MS} ms"] if near_zero else []
        if not self.states_unit and self.predicted_ms is None:
            flaws.append(f"read as milliseconds: {self.path.name} does not end in _ms.csv")
        return tuple(flaws)


def open_table(
    space: Space, name: str, statistic: Statistic = Statistic.median, unit: TimeUnit | None = None
) -> tuple[TimedDevice, MeasuredLatency | None]:
    """Find a device by its name, and read and check its table; None if only a model can know it.

    `unit` is that of its column, whatever the names say.

    Raises:
      UserError: if there is no such device, it has no measurements in this scenario or of this
        statistic, or its table cannot be used.
    """
    files = latency_files(data_folder(), space)
    device = _find(space, name, statistic, files)
    measured = _read(space, device, files, unit)
    if measured is None and device.has_scenario:
        alone = solo_id(device.id)
        in_scenarios = ", ".join(scenarios(space, alone)) or "none"
        suffix = device.id.removeprefix(alone).partition("@")[0]
        others = [solo_id(name) for name in scenarios(space) if name.endswith(suffix)]
        raise UserError(
            f"{device.id} was not measured; scenarios of this device with a table: {in_scenarios}; "
            f"devices with a table in this scenario: {', '.join(others) or 'none'} "
            f"(docs/how-to/when-the-board-is-busy.md)"
        )
    if measured is None and device.statistic is not Statistic.median:
        tail = device.statistic.value
        bundled = ", ".join(name for name in bundled_paths(space) if SCENARIO_MARK not in name)
        raise UserError(
            f"latency.statistic={tail}, but no table has column {device.column}: public tables have one "
            f"number for an architecture; for your own measurement, `python -m nas.measure` with the "
            f"same settings and statistic={tail} writes {tail} to another file, from the times it has; "
            f"bundled devices with tails: {bundled or 'none'}"
        )
    return device, measured


def device_named(space: Space, name: str, statistic: Statistic = Statistic.median) -> TimedDevice:
    """The device of an id, of a column's name, or of a column in the user's own file.

    With another statistic than the median it is the device of that statistic, `<id>@p95`, which is
    also found by that id.

    Raises:
      UserError: if there is none; it offers the nearest names.
    """
    return _find(space, name, statistic, latency_files(data_folder(), space))


def measured_on(space: Space, device: TimedDevice) -> MeasuredLatency | None:
    """Latencies of a device: its column in the data folder, else its bundled table, else None.

    Raises:
      UserError: if a file is malformed, or a latency is not positive.
    """
    return _read(space, device, latency_files(data_folder(), space))


def not_read(space: Space) -> tuple[str, ...]:
    """A line for each file in the data folder that looks like a table and is not read."""
    reasons = left_out(data_folder(), space)
    return tuple(f"{path} was not read: {reason}" for path, reason in reasons.items())


def scenarios(space: Space, alone: str | None = None) -> tuple[str, ...]:
    """Ids of the devices in a scenario that have a table; only those of one device if it is given.

    Raises:
      UserError: if two tables have the same column.
    """
    names = {**latency_files(data_folder(), space), **bundled_paths(space)}
    in_scenarios = (name for name in names if SCENARIO_MARK in name and "@" not in name)
    return tuple(sorted(name for name in in_scenarios if alone in {None, solo_id(name)}))


def _find(space: Space, name: str, statistic: Statistic, files: Mapping[str, Path]) -> TimedDevice:
    name, statistic = _without_statistic(name, statistic)
    device = find(space, name)
    if device is None and not files.keys().isdisjoint({name, id_of_statistic(name, statistic)}):
        device = unregistered(name)
    if device is not None:
        return device.with_statistic(statistic)
    if in_scenarios := scenarios(space, name):
        raise UserError(
            f"{name} was measured only in scenarios ({', '.join(in_scenarios)}), and an architecture "
            f"that was not measured in one is predicted from its latency alone; measure that too, with "
            f"the same `python -m nas.measure` without scenario= "
            f"(docs/how-to/when-the-board-is-busy.md)"
        )
    for folder in (data_folder(), data_folder() / space.name):
        for journal in folder.glob(f"{slug_of(name)}*{JOURNAL_SUFFIX}"):
            raise UserError(
                f"device {name!r} has no table yet: the measurement of {journal} has not ended, or every "
                f"time in it was measured under load; the same `python -m nas.measure` with out={folder} goes on"
            )
    raise UserError(_unknown(space, name, files))


def _unknown(space: Space, name: str, files: Mapping[str, Path]) -> str:
    devices = registered(space)
    names = sorted({*(device.id for device in devices), *(d.column for d in devices), *files})
    folder = data_folder()
    others = [
        f"{path.name} is of another space than {space.name}"
        for path in sorted(folder.glob("*.csv"))
        if header(path) and not belongs(path, space)
    ]
    ignored = "".join(f"; {each}" for each in (*others, *not_read(space)))
    if not names:
        return (
            f"latencies of space={space.name} on device {name!r} are not known, and nothing predicts them: "
            f"time the networks on the board (latency=probe device=ssh://<board>) or on this machine "
            f"(device=here), or measure a table into {folder} with `python -m nas.measure "
            f"space={space.name}`{ignored}"
        )
    nearest = get_close_matches(name, names, cutoff=0.4)
    offer = "the nearest are" if nearest else "known are, among others,"
    return (
        f"device {name!r} is not known; {offer} {', '.join(nearest or names[:3])}{ignored}; "
        f"`python -m nas.data space={space.name} list` lists all devices"
    )


def _without_statistic(name: str, statistic: Statistic) -> tuple[str, Statistic]:
    alone, _, stated = name.rpartition("@")
    if not alone or stated not in {Statistic.p95.value, Statistic.p99.value}:
        return name, statistic
    if statistic not in {Statistic.median, Statistic(stated)}:
        raise UserError(
            f"device={name} is of {stated}, but latency.statistic={statistic.value}; name one of the two"
        )
    return alone, Statistic(stated)


def _read(
    space: Space, device: TimedDevice, files: Mapping[str, Path], unit: TimeUnit | None = None
) -> MeasuredLatency | None:
    column = next((name for name in (device.column, device.id) if name in files), None)
    if column is None:
        return _bundled(space, device)
    table = read_csv_table(files[column], space)
    predicted_ms, high_ms = (
        _times(table, name, space, unit) if name in table.columns else None
        for name in (f"{column}{PREDICTED}", f"{column}{HIGH}")
    )
    return MeasuredLatency(
        table.path,
        table.architectures,
        _times(table, column, space, unit),
        predicted_ms,
        unit is not None or stated_unit(table.path, column) is not None,
        high_ms,
    )


def _times(
    table: CsvTable, column: str, space: Space, unit: TimeUnit | None
) -> Float64[ndarray, "n"]:
    values_ms = to_ms(table.column(column), table.path, column, unit)
    for row in np.flatnonzero((values_ms < LEAST_MS) | (values_ms > MOST_MS))[:1]:
        text = space.text(table.architectures[row])
        require_ms(values_ms[row], f"{table.path}: {column} of {text} is")
    return values_ms


def _bundled(space: Space, device: TimedDevice) -> MeasuredLatency | None:
    """The bundled table of a device; it has numbers, and so a space that has them."""
    paths = {
        id_of_statistic(name, device.statistic): path for name, path in bundled_paths(space).items()
    }
    path = paths.get(device.id)
    if path is None or not isinstance(space, Enumerable):
        return None
    table = read_bundled(path)
    values_ms = np.full(space.size, np.nan)
    values_ms[table.index] = {
        Statistic.median: table.median_ms,
        Statistic.p95: table.p95_ms,
        Statistic.p99: table.p99_ms,
    }[device.statistic]
    return MeasuredLatency(path, every_architecture(space), values_ms)


def input_caveats(device: TimedDevice, space: Space, task: Task) -> list[str]:
    """Differences between the task that was timed and the one that is searched for, in words."""
    if device.dataset is None:
        return ["input size not stated by the source"]
    timed = space.tasks[device.dataset]
    if timed == task:
        return []
    if timed.image_side != task.image_side:
        sides = f"{timed.image_side} pixels wide, not {task.image_side}"
        return [f"measured for {timed.name}, on images {sides}"]
    return [f"measured for {timed.name}: same input, another last layer"]
