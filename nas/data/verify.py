"""`verify`: checks every table in the data folder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
from jaxtyping import Bool
from numpy import ndarray

from edgenas_core.files.keyed_table import (
    ENERGY_SUFFIX,
    CsvTable,
    HasWholeTables,
    belongs,
    header,
    is_whole,
    latency_files,
    origin_beside,
    parse_csv_table,
)
from edgenas_core.types.errors import UserError
from latency.devices.registry import registered
from latency.models.plausibility import implausibly_fast
from nas.accuracy.base import HasAccuracyTable
from nas.spaces.base import SearchSpace
from nas.spaces.public_data import HasPublicData

_TOLERANCE = 1e-4  # of a reference value, which is rounded


@final
@dataclass(frozen=True)
class Verdict:
    """Result for one file."""

    passed: bool
    line: str  # for the user, with the reason


def verify(space: SearchSpace, folder: Path) -> Iterator[Verdict]:
    """Check each table of the folder, reading the file itself and not its cache.

    Raises:
      UserError: if there is no table.
    """
    shared = sorted(folder.glob("*.csv"))
    if not isinstance(space, HasWholeTables):  # the others are of other spaces
        shared = [path for path in shared if belongs(path, space)]
    paths = [*shared, *sorted((folder / space.name).glob("*.csv"))]
    if not paths:
        raise UserError(
            f"{folder} holds no table; `python -m nas.data space={space.name} fetch` downloads the public ones"
        )
    verdicts = [_judge(space, path) for path in paths]
    yield from verdicts
    if not all(verdict.passed for verdict in verdicts):
        return
    try:
        latency_files(folder, space)
    except UserError as error:
        yield Verdict(passed=False, line=f"FAIL  {folder}: {error}")


def _judge(space: SearchSpace, path: Path) -> Verdict:
    try:
        return Verdict(passed=True, line=f"ok    {path.name}: {_accept(space, path)}")
    except (UserError, OSError) as error:
        return Verdict(passed=False, line=f"FAIL  {path.name}: {error}")


def _accept(space: SearchSpace, path: Path) -> str:
    """Count the file's rows and columns.

    Raises:
      UserError: if a number in it is impossible, or disagrees with a reference value.
    """
    origin = origin_beside(path).get("space", space.name)
    if origin != space.name:
        return f"a table of space={origin}"
    if "arch" not in header(path) and not is_whole(path, space):
        return "no column 'arch', so it is not read as a table"
    table = parse_csv_table(path, space)
    is_accuracy = isinstance(space, HasAccuracyTable) and path.name == space.accuracy_table.file
    for name, column in zip(table.columns, table.values, strict=True):
        if is_accuracy and name.endswith(("_valid", "_test")):
            _check(space, table, name, (column >= 0) & (column <= 100), "not 0 to 100 percent")
        elif is_accuracy or path.name.endswith(ENERGY_SUFFIX):
            _check(space, table, name, np.isnan(column) | (column >= 0), "negative")
        else:
            _check(space, table, name, np.isnan(column) | (column > 0), "not a positive time")
    compared = _compare(space, table)
    faults = "" if is_accuracy or path.name.endswith(ENERGY_SUFFIX) else _faults(space, table)
    rows = int((~np.isnan(table.values)).any(axis=0).sum())
    gaps = int(np.isnan(table.values).any(axis=1).sum())
    return (
        f"{rows:,} rows, {len(table.columns)} columns"
        + (f", {gaps} of them with cells that were not measured" if gaps else "")
        + (f", {compared} published values agree" if compared else "")
        + faults
    )


def _faults(space: SearchSpace, table: CsvTable) -> str:
    """Implausibly fast times of each registered device, which searches set aside."""
    counts = {}
    for device in registered(space):
        if device.column in table.columns:
            fast = implausibly_fast(space, device, table.architectures, table.column(device.column))
            counts[device.column] = int(fast.sum())
    fault = ", ".join(f"{count:,} of {name}" for name, count in counts.items() if count)
    return f"; implausibly fast, and set aside by searches: {fault}" if fault else ""


def _check(
    space: SearchSpace, table: CsvTable, name: str, good: Bool[ndarray, "size"], what: str
) -> None:
    if not good.all():
        row = int(np.argmin(good))
        number = table.column(name)[row]
        fault = "missing" if np.isnan(number) else f"{number:g}, {what}"
        raise UserError(
            f"{name} of {space.text(table.architectures[row])} (index {row}) is {fault}"
        )


def _compare(space: SearchSpace, table: CsvTable) -> int:
    """Compare the table with the reference values of the space; returns how many it has."""
    if not isinstance(space, HasPublicData):
        return 0
    compared = 0
    for name, references in space.public_data().reference_values.items():
        if name not in table.columns:
            continue
        for index, published in references.items():
            number = table.column(name)[index]
            if np.isnan(number):
                continue
            if abs(number - published) > _TOLERANCE:
                raise UserError(
                    f"{name} of index {index} is {number:g}, published is {published:g}"
                )
            compared += 1
    return compared
