"""The limits that a user writes beside T: `E=5mJ`, `P=1M`, `RAM=256kB`, `flash=1MB`.

The energy of a device is a column of a `*_mj.csv` in the data folder, in millijoules, named like the
device's latency column, or like its id. Another runtime on the same board is another device, as for
the latency.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from edgenas_core.files.keyed_table import data_folder, energy_files, read_csv_table
from edgenas_core.types.architectures import Enumerable
from edgenas_core.types.errors import UserError
from edgenas_core.types.task import Task
from edgenas_core.types.units import memory_parts, millijoules, parameter_count
from latency.base import EnumerableSpace
from latency.devices.measured import device_named, input_caveats
from latency.devices.registry import find
from nas.spaces.base import OnMicrocontroller, SearchSpace
from nas.trials.limits import Limit, Limits


def limits_of(
    energy: str | None,
    count: str | None,
    device: str,
    space: SearchSpace,
    task: Task,
    *,
    memory: Mapping[str, str | None] = MappingProxyType({}),
) -> Limits:
    """The limits that a user wrote as E and P, and RAM and flash in `memory`.

    Raises:
      UserError: if one cannot be read, or the device's energy is not known.
    """
    limits = []
    if energy is not None:
        if not isinstance(space, Enumerable):
            raise UserError(
                f"E={energy}: no energy is known of space={space.name}, which has no table; leave "
                f"out E"
            )
        bound_mj, numbers = millijoules(energy), space.numbers
        values_mj, source = _energies(space, device, task)
        limits.append(
            Limit("E", "energy_mj", "mJ", bound_mj, source, lambda rows: values_mj[numbers(rows)])
        )
    if count is not None:
        limits.append(
            Limit(
                "P",
                "parameters",
                "",
                parameter_count(count),
                f"counted, for {task.num_classes} classes",
                lambda rows: space.costs(rows, task)["parameters"],
            )
        )
    limits += [
        _memory_limit(symbol, text, column, space, task)
        for column, (symbol, text) in enumerate(memory.items())
        if text is not None
    ]
    return Limits(tuple(limits))


def _memory_limit(symbol: str, text: str, column: int, space: SearchSpace, task: Task) -> Limit:
    if not isinstance(space, OnMicrocontroller):
        raise UserError(
            f"{symbol}={text}: space={space.name} has no ChoiceSpace.memories; leave it out"
        )
    parts_kb = tuple(part / 1e3 for part in memory_parts(symbol, text))
    source = "of the int8 .tflite file in TFLite Micro, computed from the layers"
    is_split = len(parts_kb) > 1
    if is_split and column == 0:
        source += f"; beyond {parts_kb[0]:g} kB the largest activations alive at the busiest operation lie in the slower memory"
    elif is_split:
        source += f"; what exceeds {parts_kb[0]:g} kB lies in the slower memory"

    def cost_kb(rows: Int64[ndarray, "*n D"]) -> Float64[ndarray, "*n"]:
        if not is_split or column > 0:
            return np.asarray(space.memories(rows, task)[..., column] / 1e3)
        fast_kb, slow_kb = parts_kb
        here, away = np.moveaxis(space.split_memories(rows, task, 1e3 * fast_kb) / 1e3, -1, 0)
        # What overfills one of the two is beyond the sum of both.
        beyond = np.maximum(
            np.where(here > fast_kb, here + slow_kb, 0), np.where(away > slow_kb, away + fast_kb, 0)
        )
        return np.asarray(np.maximum(here + away, beyond))

    return Limit(
        symbol,
        f"{symbol}_kb",
        "kB",
        sum(parts_kb),
        source,
        cost_kb,
        parts_kb if is_split else (),
    )


def _energies(
    space: EnumerableSpace, name: str, task: Task
) -> tuple[Float64[ndarray, "size"], str]:
    """Energy in millijoules by the number of the architecture, and the origin of these numbers.

    Raises:
      UserError: if no file has the device (the message names devices that have one), a file is
        malformed, or an energy is missing or not positive.
    """
    if "://" in name:
        raise UserError(
            f"the energy of a live board, {name}, is not known; leave out E, which needs a table "
            f"of measured energy"
        )
    device = device_named(space, name)
    files = energy_files(data_folder(), space)
    column = next((key for key in (device.column, device.id) if key in files), None)
    if column is None:
        raise UserError(_no_energy(space, device.id, files))
    path = files[column]
    values_mj = read_csv_table(path, space).column(column)
    wrong = ~(values_mj > 0)
    if wrong.any():
        first = int(np.argmax(wrong))
        arch = space.text(space.architectures(np.array(first)))
        raise UserError(
            f"{path}: {column} of {wrong.sum():,} architectures is empty or not positive, such as "
            f"{values_mj[first]:g} mJ of {arch}; E needs all of them, for no model predicts energy"
        )
    source = f"table: {path.name}, column {column}"
    return values_mj, "; ".join([source, *input_caveats(device, space, task)])


def _no_energy(space: EnumerableSpace, device: str, files: dict[str, Path]) -> str:
    if not files:
        return (
            f"E needs measured energy, but no file {data_folder()}/*_mj.csv has a column 'arch' "
            f"and a device's column in millijoules; leave out E, or put one there"
        )
    entries = {column: find(space, column) for column in files}
    names = [column if entry is None else entry.id for column, entry in entries.items()]
    return (
        f"no energy of {device} is known; leave out E, or take one of the devices that "
        f"have it: {', '.join(names)}"
    )
