"""`list`: the accuracies and devices that a search can use, as lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np

from edgenas_core.files.keyed_table import data_folder, latency_files, read_csv_table
from edgenas_core.types.errors import UserError
from latency.base import Space
from latency.devices.measured import measured_on, scenarios
from latency.devices.registry import TimedDevice, find, registered, unregistered
from latency.models.microcontrollers import chips
from latency.models.regression import Quality, embedded_models
from latency.sources.published import HasMicroWork
from nas.accuracy.base import HasAccuracyTable
from nas.spaces.base import SearchSpace

_COLUMN = re.compile(r"(?P<dataset>[a-z0-9]+)_(epoch(?P<epochs>[0-9]+)_)?(?P<split>valid|test)")


def accuracy_lines(space: SearchSpace, folder: Path) -> Iterator[str]:
    """A line for each data set of the table in the data folder.

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
            yield f"accuracy table of {dataset}: {splits}; {filled.sum():,} cells in {path.name}"


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


def device_lines(rows: Iterable[DeviceRow]) -> list[str]:
    """The id of each device and a line about it; flaws are numbered, and listed once at the end.

    A line is never broken, so that an id can be copied.
    """
    number_of: dict[str, int] = {}
    lines = []
    for row in rows:
        sources = ", ".join(row.sources) or "no latencies"
        parts = [f"{row.device.column}: {sources}"]
        parts += [] if row.measured_count is None else [f"{row.measured_count:,} measured"]
        parts += [] if row.quality is None else [f"R2 {row.quality.r2:.3f}"]
        numbers = [number_of.setdefault(flaw, len(number_of) + 1) for flaw in row.flaws]
        parts += [f"flaws {', '.join(map(str, numbers))}"] * bool(numbers)
        lines += [row.device.id, f"  {'; '.join(parts)}"]
    return [*lines, *(f"{number}: {flaw}" for flaw, number in number_of.items())]


def chip_lines(space: SearchSpace) -> list[str]:
    """The id of each modelled microcontroller and a line about it, where the space counts operations."""
    if not isinstance(space, HasMicroWork):
        return []
    cards = [(chip.device, f"  published: predicted, {chip.card}") for chip in chips().values()]
    return ["microcontrollers, int8 files:", *(line for card in cards for line in card)]
