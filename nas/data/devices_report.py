"""Latencies of each device that a search can use: the rows of `python -m nas.data list`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from latency.base import Space
from latency.devices.measured import measured_on, scenarios
from latency.devices.registry import Device, find, registered, unregistered
from latency.models.regression import Quality, embedded_models
from runtime.shell.errors import UserError
from runtime.shell.keyed_table import data_folder, latency_files


@final
@dataclass(frozen=True)
class DeviceRow:
    """One device, and its latencies that need no download."""

    device: Device
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
    own = [unregistered(name) for name in columns if find(space, name) is None]
    return [_row(space, device) for device in (*registered(space), *in_scenarios, *own)]


def _row(space: Space, device: Device) -> DeviceRow:
    flaws = device.flaws
    try:
        measured = measured_on(space, device)
    except UserError as error:  # the list also has devices whose table cannot be read
        measured, flaws = None, (*flaws, str(error))
    if measured is not None:
        flaws = (*flaws, *measured.flaws)
    embedded = embedded_models(space).get(device.id)
    usable = {
        "table": measured is not None,
        "regression": embedded is not None,
    }
    return DeviceRow(
        device=device,
        sources=tuple(name for name, is_there in usable.items() if is_there),
        measured_count=None if measured is None else measured.count,
        quality=None if embedded is None else embedded.quality,
        flaws=flaws,
    )
