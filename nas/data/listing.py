"""`list`: the accuracies and devices that a search can use, as tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
from rich.table import Table

from common.files.keyed_table import data_folder, latency_files, read_csv_table
from common.types.errors import UserError
from latency.base import Space
from latency.devices.measured import measured_on, scenarios
from latency.devices.registry import TimedDevice, find, registered, unregistered
from latency.models.regression import Quality, embedded_models
from nas.accuracy.base import HasAccuracyTable
from nas.spaces.base import SearchSpace

_COLUMN = re.compile(r"(?P<dataset>[a-z0-9]+)_(epoch(?P<epochs>[0-9]+)_)?(?P<split>valid|test)")


def accuracy_rows(space: SearchSpace, folder: Path) -> Iterator[tuple[str, ...]]:
    """Rows of `accuracy_table`: the data sets of the table in the data folder.

    Raises:
      UserError: if the table exists but cannot be read.
    """
    if not isinstance(space, HasAccuracyTable):
        return
    path = folder / space.accuracy_table.file
    if path.exists():
        table = read_csv_table(path, space)
        matches = [m for m in map(_COLUMN.fullmatch, table.columns) if m]
        for dataset in dict.fromkeys(m["dataset"] for m in matches):
            mine = [m for m in matches if m["dataset"] == dataset]
            splits = ", ".join(
                f"{m['split']} @ {m['epochs'] or space.accuracy_table.full_epochs}" for m in mine
            )
            filled = ~np.isnan([table.column(m.group()) for m in mine]).any(axis=0)
            yield "table", dataset, splits, f"{filled.sum():,}", path.name


@final
@dataclass(frozen=True)
class DeviceRow:
    """One device, and its latencies that need no download."""

    device: TimedDevice
    sources: tuple[str, ...]  # of table, regression
    measured_count: int | None  # architectures; None: no file has its column
    quality: Quality | None  # of the embedded regression
    flaws: tuple[str, ...]


def known_devices(space: Space) -> list[DeviceRow]:
    """The registered devices, those measured in scenarios, then the user's own columns."""
    columns = latency_files(data_folder(), space)
    in_scenarios = [
        device for name in scenarios(space) if (device := find(space, name)) is not None
    ]
    local = [unregistered(name) for name in columns if find(space, name) is None]
    return [_row(space, device) for device in (*registered(space), *in_scenarios, *local)]


def _row(space: Space, device: TimedDevice) -> DeviceRow:
    flaws = device.flaws
    try:
        measured = measured_on(space, device)
    except UserError as error:  # the list also has devices whose table cannot be read
        measured, flaws = None, (*flaws, str(error))
    if measured is not None:
        flaws = (*flaws, *measured.flaws)
    embedded = embedded_models(space).get(device.id)
    by_source = {"table": measured, "regression": embedded}
    return DeviceRow(
        device=device,
        sources=tuple(name for name, held in by_source.items() if held is not None),
        measured_count=None if measured is None else measured.count,
        quality=None if embedded is None else embedded.quality,
        flaws=flaws,
    )


def accuracy_table(rows: Iterable[Sequence[str]]) -> Table:
    """Table with a line for each data set."""
    table = Table("accuracy", "data set", "split @ epochs", "cells", "in", title="Accuracy")
    for row in rows:
        table.add_row(*row)
    return table


def devices_table(rows: Iterable[DeviceRow]) -> Table:
    """Table with a line for each device; flaws are numbered, and listed once below the table."""
    table = Table(title="Devices", caption_justify="left")
    table.add_column("device, alias", overflow="fold", ratio=1)  # whole, so that it can be copied
    for name in ("latency", "measured", "R2", "flaws"):
        table.add_column(name)
    number_of: dict[str, int] = {}
    for row in rows:
        numbers = [number_of.setdefault(flaw, len(number_of) + 1) for flaw in row.flaws]
        table.add_row(
            f"{row.device.id}\n  {row.device.column}",
            "\n".join(row.sources),
            "" if row.measured_count is None else f"{row.measured_count:,}",
            "" if row.quality is None else f"{row.quality.r2:.3f}",
            ", ".join(map(str, numbers)),
        )
    table.caption = "\n".join(f"{number}: {flaw}" for flaw, number in number_of.items()) or None
    return table
