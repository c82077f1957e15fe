"""`verify`: is every table in the data folder what it claims to be?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
from jaxtyping import Bool
from numpy import ndarray

from nas.spaces.nas_bench_201.public.importing import latency_column
from nas.spaces.nas_bench_201.space import NAS_BENCH_201, TASKS
from runtime.shell.errors import UserError
from runtime.shell.keyed_table import (
    ACCURACY_FILE,
    ENERGY_SUFFIX,
    WHOLE_SPACE_PREFIX,
    CsvTable,
    header,
    latency_files,
    parse_csv_table,
)

_CELLS = (0, 11, 284)
_PUBLISHED = {
    "cifar10_valid": (81.9827, 87.9400, 86.0467),
    "cifar10_test": (85.8633, 91.5833, 88.7900),
    "cifar100_valid": (52.7000, 67.4533, 61.6800),
    "cifar100_test": (52.9133, 67.6067, 62.1400),
    "imagenet16_valid": (28.2111, 30.4111, 33.4000),
    "imagenet16_test": (26.6333, 30.1667, 32.4667),
    latency_column(TASKS["cifar100"]): (13.1829, 16.1389, 11.1450),
}
"""Three cells of NATS-Bench's official archive, v1.0: percent, and milliseconds."""

_DIGITS = 1e-4  # to which they stand here


@final
@dataclass(frozen=True)
class Verdict:
    """On one file; `line` says why."""

    passed: bool
    line: str


def verify(folder: Path) -> Iterator[Verdict]:
    """Judge each table of the folder, reading the file itself and not the cache of it.

    Raises:
      UserError: if there is no table.
    """
    paths = sorted(folder.glob("*.csv"))
    if not paths:
        raise UserError(
            f"{folder} holds no table; `python -m nas.data fetch` downloads the public ones"
        )
    verdicts = [_judge(path) for path in paths]
    yield from verdicts
    if not all(verdict.passed for verdict in verdicts):
        return  # what one file lacks is no news about the folder
    try:
        latency_files(folder)
    except UserError as error:
        yield Verdict(passed=False, line=f"FAIL  {folder}: {error}")


def _judge(path: Path) -> Verdict:
    try:
        return Verdict(passed=True, line=f"ok    {path.name}: {_accept(path)}")
    except (UserError, OSError) as error:
        return Verdict(passed=False, line=f"FAIL  {path.name}: {error}")


def _accept(path: Path) -> str:
    """What is in the file, if all of it is right."""
    if "arch" not in header(path) and not path.name.startswith(WHOLE_SPACE_PREFIX):
        return "no column 'arch', so it is not read as a table"
    table = parse_csv_table(path)
    is_accuracy = path.name == ACCURACY_FILE
    for name, column in zip(table.columns, table.values, strict=True):
        if is_accuracy and name in _accuracy_columns(table):
            _check(table, name, (column >= 0) & (column <= 100), "not 0 to 100 percent")
        elif is_accuracy or path.name.endswith(ENERGY_SUFFIX):
            _check(table, name, np.isnan(column) | (column >= 0), "negative")
        else:
            _check(table, name, np.isnan(column) | (column > 0), "not a positive time")
    compared = _compare(table)
    rows = int((~np.isnan(table.values)).any(axis=0).sum())
    gaps = int(np.isnan(table.values).any(axis=1).sum())
    return (
        f"{rows:,} rows, {len(table.columns)} columns"
        + (f", {gaps} of them with cells that were not measured" if gaps else "")
        + (f", {compared} published values agree" if compared else "")
    )


def _accuracy_columns(table: CsvTable) -> tuple[str, ...]:
    return tuple(name for name in table.columns if name.endswith(("_valid", "_test")))


def _check(table: CsvTable, name: str, good: Bool[ndarray, "15625"], what: str) -> None:
    if not good.all():
        row = int(np.argmin(good))
        number = table.column(name)[row]
        found = "missing" if np.isnan(number) else f"{number:g}, {what}"
        raise UserError(f"{name} of {NAS_BENCH_201.strings[row]} (index {row}) is {found}")


def _compare(table: CsvTable) -> int:
    """How many published values the table has; each must agree."""
    compared = 0
    for name in set(_PUBLISHED) & set(table.columns):
        for cell, published in zip(_CELLS, _PUBLISHED[name], strict=True):
            number = table.column(name)[cell]
            if np.isnan(number):
                continue
            if abs(number - published) > _DIGITS:
                raise UserError(f"{name} of index {cell} is {number:g}, published is {published:g}")
            compared += 1
    return compared
