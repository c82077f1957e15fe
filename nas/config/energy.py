"""Measured energy of a device: a column of a `*_mj.csv` in the data folder, in millijoules.

The column has the name that the device's latency column has, or its id. Another runtime on the
same board is another device, here as for the latency.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from latency.devices.measured import device_named, input_caveats
from latency.devices.registry import Device, find
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.spaces.nas_bench_201.space import NAS_BENCH_201
from runtime.network.task import Task
from runtime.shell.errors import UserError
from runtime.shell.keyed_table import data_folder, energy_files, read_csv_table


@final
@dataclass(frozen=True)
class MeasuredEnergy:
    """One column of a table, complete and positive."""

    path: Path
    column: str
    values_mj: Float64[ndarray, "15625"]  # in official order
    device: Device

    def source(self, task: Task) -> str:
        """Where it is from, and what to know where another data set's networks were measured."""
        said = f"table: {self.path.name}, column {self.column}"
        return "; ".join([said, *input_caveats(self.device, task)])


def energy_of(device: str) -> MeasuredEnergy:
    """What each architecture takes on a device.

    Raises:
      UserError: if no file has the device; it says which devices have one. If a file is
        malformed, a cell is missing, or not positive.
    """
    if "://" in device:
        raise UserError(
            f"the energy of a live board, {device}, is not known; leave out E, which needs a table "
            f"of measured energy"
        )
    found = device_named(device)
    files = energy_files(data_folder(), SPACE)
    column = next((name for name in (found.column, found.id) if name in files), None)
    if column is None:
        raise UserError(_no_energy(found.id, files))
    values_mj = read_csv_table(files[column], SPACE).column(column)
    missing = np.isnan(values_mj)
    if missing.any():
        first = int(np.argmax(missing))
        raise UserError(
            f"{files[column]}: {column} of {missing.sum():,} architectures is empty, such as "
            f"{NAS_BENCH_201.strings[first]}; E needs all of them, for no model predicts energy"
        )
    wrong = values_mj <= 0
    if wrong.any():
        first = int(np.argmax(wrong))
        raise UserError(
            f"{files[column]}: {column} of {NAS_BENCH_201.strings[first]} is "
            f"{values_mj[first]:g} mJ; an energy is positive"
        )
    return MeasuredEnergy(files[column], column, values_mj, found)


def _no_energy(device: str, files: dict[str, Path]) -> str:
    if not files:
        return (
            f"E needs measured energy, but no file {data_folder()}/*_mj.csv has a column 'arch' "
            f"and a device's column in millijoules; leave out E, or put one there"
        )
    known = {column: find(column) for column in files}
    names = [column if entry is None else entry.id for column, entry in known.items()]
    return (
        f"no energy of {device} is known; leave out E, or take one of the devices that "
        f"have it: {', '.join(names)}"
    )
