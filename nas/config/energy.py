"""Measured energy of a device: a column of a `*_mj.csv` in the data folder, in millijoules.

The column is named like the device's latency column, or like its id. Another runtime on the same
board is another device, as for the latency.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from common.files.keyed_table import data_folder, energy_files, read_csv_table
from common.types.errors import UserError
from common.types.task import Task
from latency.base import EnumerableSpace
from latency.devices.measured import device_named, input_caveats
from latency.devices.registry import Device, find


@final
@dataclass(frozen=True)
class MeasuredEnergy:
    """One column of a table, complete and positive."""

    path: Path
    column: str
    values_mj: Float64[ndarray, "size"]  # by the number of the architecture
    device: Device
    space: EnumerableSpace

    def source(self, task: Task) -> str:
        """Origin of the numbers, and how the measured networks differ from those of the task."""
        said = f"table: {self.path.name}, column {self.column}"
        return "; ".join([said, *input_caveats(self.device, self.space, task)])


def energy_of(space: EnumerableSpace, device: str) -> MeasuredEnergy:
    """Energy of every architecture on a device.

    Raises:
      UserError: if no file has the device (the message names devices that have one), a file is
        malformed, or an energy is missing or not positive.
    """
    if "://" in device:
        raise UserError(
            f"the energy of a live board, {device}, is not known; leave out E, which needs a table "
            f"of measured energy"
        )
    found = device_named(space, device)
    files = energy_files(data_folder(), space)
    column = next((name for name in (found.column, found.id) if name in files), None)
    if column is None:
        raise UserError(_no_energy(space, found.id, files))
    values_mj = read_csv_table(files[column], space).column(column)
    missing = np.isnan(values_mj)
    if missing.any():
        first = int(np.argmax(missing))
        raise UserError(
            f"{files[column]}: {column} of {missing.sum():,} architectures is empty, such as "
            f"{space.text(space.architectures(np.array(first)))}; E needs all of them, for no model predicts energy"
        )
    wrong = values_mj <= 0
    if wrong.any():
        first = int(np.argmax(wrong))
        raise UserError(
            f"{files[column]}: {column} of {space.text(space.architectures(np.array(first)))} is "
            f"{values_mj[first]:g} mJ; an energy is positive"
        )
    return MeasuredEnergy(files[column], column, values_mj, found, space)


def _no_energy(space: EnumerableSpace, device: str, files: dict[str, Path]) -> str:
    if not files:
        return (
            f"E needs measured energy, but no file {data_folder()}/*_mj.csv has a column 'arch' "
            f"and a device's column in millijoules; leave out E, or put one there"
        )
    known = {column: find(space, column) for column in files}
    names = [column if entry is None else entry.id for column, entry in known.items()]
    return (
        f"no energy of {device} is known; leave out E, or take one of the devices that "
        f"have it: {', '.join(names)}"
    )
