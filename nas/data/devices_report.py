"""What is known of each device right now: the rows of `python -m nas.data list`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from latency.devices.measured import measured_on, situations
from latency.devices.registry import Device, find, registered, unregistered
from latency.models.regression import Quality, embedded_models
from latency.sources.nats import NATS_DEVICE
from nas.spaces.nas_bench_201.plugin import SPACE
from runtime.shell.errors import UserError
from runtime.shell.keyed_table import data_folder, latency_files


@final
@dataclass(frozen=True)
class DeviceRow:
    """One device, and what a search can use of it without fetching anything."""

    device: Device
    sources: tuple[str, ...]  # of table, regression, nats
    measured_cells: int | None  # None: no file has its column
    quality: Quality | None  # of the embedded regression
    flaws: tuple[str, ...]


def known_devices() -> list[DeviceRow]:
    """The registered devices, what of them was measured in situations, then the user's own columns."""
    columns = latency_files(data_folder(), SPACE)
    situated = [device for name in situations() if (device := find(name)) is not None]
    own = [unregistered(name) for name in columns if find(name) is None]
    return [_row(device) for device in (*registered(), *situated, *own)]


def _row(device: Device) -> DeviceRow:
    flaws = device.flaws
    try:
        measured = measured_on(device)
    except UserError as error:  # a list of what there is also lists what cannot be used
        measured, flaws = None, (*flaws, str(error))
    if measured is not None:
        flaws = (*flaws, *measured.flaws)
    embedded = embedded_models().get(device.id)
    usable = {
        "table": measured is not None,
        "regression": embedded is not None,
        "nats": device.id == NATS_DEVICE,
    }
    return DeviceRow(
        device=device,
        sources=tuple(name for name, is_there in usable.items() if is_there),
        measured_cells=None if measured is None else measured.cells,
        quality=None if embedded is None else embedded.quality,
        flaws=flaws,
    )
