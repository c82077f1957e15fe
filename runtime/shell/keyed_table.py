"""The open CSV layout of benchmark tables: one row an architecture, one column a quantity.

`arch` holds the benchmark's string, `index` (optional) its official number, every other column
numbers; an empty field means "not measured". `nb201_accuracy.csv` is the accuracy table. Any
other CSV with `arch` is a latency table with one column a device, in milliseconds, unless its
name ends in another unit (`_mj.csv` is energy). What a model said of a device stands in columns of
its own, `device@predicted`, `device@low` and `device@high`, and is no measurement. Files named `nb201_*` cover the whole space;
others may hold any part of it, in any order.
"""

from __future__ import annotations

import csv
import os
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, final

import numpy as np
import platformdirs
from jaxtyping import Float64, Int64
from numpy import ndarray

from nas.spaces.nas_bench_201.space import NAS_BENCH_201
from runtime.shell.atomic_file import replacing
from runtime.shell.errors import UserError

if TYPE_CHECKING:
    import pyarrow as pa


ACCURACY_FILE = "nb201_accuracy.csv"
ENERGY_SUFFIX = "_mj.csv"
LATENCY_SUFFIX = "_ms.csv"
WHOLE_SPACE_PREFIX = "nb201_"
PREDICTED, LOW, HIGH = "@predicted", "@low", "@high"
"""Ends of the names of columns that hold a model's predictions, and the interval about them."""

_CACHE_VERSION = 1
_LONGEST_HEADER = 2**20  # bytes; what has no line break for longer is no table


def data_folder() -> Path:
    """Folder of the benchmark tables: `NAS_DATA`, or the user's data folder.

    Raises:
      UserError: if `NAS_DATA` names no folder.
    """
    named = os.environ.get("NAS_DATA")
    if not named:
        return Path(platformdirs.user_data_dir("edgenas"))
    if not Path(named).is_dir():
        raise UserError(
            f"NAS_DATA={named} is not a folder; name one that holds {ACCURACY_FILE}, or unset it"
        )
    return Path(named)


@final
@dataclass(frozen=True)
class CsvTable:
    """The numbers of one file, a row a column of the file, in official architecture order."""

    path: Path
    columns: tuple[str, ...]
    values: Float64[ndarray, "columns 15625"]  # NaN: not measured

    def column(self, name: str) -> Float64[ndarray, "15625"]:
        """One column; NaN where it was not measured.

        Raises:
          KeyError: if the file has no such column.
        """
        if name not in self.columns:
            raise KeyError(name)
        found: Float64[ndarray, "15625"] = self.values[self.columns.index(name)]
        return found

    def grid(self, name: str) -> Float64[ndarray, "5 5 5 5 5 5"]:
        """One column as an array indexed by architecture."""
        grid = np.empty(NAS_BENCH_201.num_choices)
        grid[tuple(NAS_BENCH_201.rows.T)] = self.column(name)
        return grid


def latency_files(folder: Path) -> dict[str, Path]:
    """The file of each measured latency column in a folder.

    Raises:
      UserError: if two files have a column of the same name, or one named `*_ms.csv` is no
        table.
    """
    others = (
        path
        for path in sorted(folder.glob("*.csv"))
        if path.name != ACCURACY_FILE and not path.name.endswith(ENERGY_SUFFIX)
    )
    return _file_of_each_column("latency", others, LATENCY_SUFFIX)


def energy_files(folder: Path) -> dict[str, Path]:
    """The file of each energy column in a folder.

    Raises:
      UserError: if two files have a column of the same name, or one is no table.
    """
    return _file_of_each_column("energy", sorted(folder.glob(f"*{ENERGY_SUFFIX}")), ENERGY_SUFFIX)


def _file_of_each_column(what: str, paths: Iterable[Path], suffix: str) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for path in paths:
        names = header(path)
        if not names and path.name.endswith(suffix):
            raise UserError(f"{path} is not a table: its first line must name a column 'arch'")
        for name in numeric_columns(names):
            if name.endswith((PREDICTED, LOW, HIGH)):
                continue
            if name in found:
                raise UserError(
                    f"{what} column {name!r} is in {found[name]} and in {path}; rename one"
                )
            found[name] = path
    return found


def header(path: Path) -> tuple[str, ...]:
    """Column names of a CSV file; none where it is not one with `arch`."""
    try:
        with path.open("rb") as file:
            line = file.readline(_LONGEST_HEADER).decode("utf-8-sig")
        names = next(csv.reader([line]), [])
    except (OSError, UnicodeDecodeError, csv.Error):
        return ()
    return tuple(names) if "arch" in names else ()


def numeric_columns(names: Sequence[str]) -> tuple[str, ...]:
    """Those of a header's names that hold numbers."""
    return tuple(name for name in names if name not in {"arch", "index"})


def read_csv_table(path: Path) -> CsvTable:
    """Read a table, from the cache where the file has not changed since.

    Raises:
      UserError: if the file is missing, unreadable, truncated or malformed.
    """
    try:
        status = path.stat()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    key = f"{_CACHE_VERSION} {status.st_size} {status.st_mtime_ns}"
    cache = _cache_path(path)
    table = _from_cache(path, cache, key)
    if table is None:
        table = parse_csv_table(path)
        _to_cache(table, cache, key)
    return table


def parse_csv_table(path: Path) -> CsvTable:
    """Read a table from the file itself, whatever the cache holds.

    Raises:
      UserError: if the file is missing, unreadable, truncated or malformed.
    """
    table = _read_with_arrow(path)
    names = numeric_columns(table.column_names)
    rows = _official_rows(path, table)
    values = np.full((len(names), NAS_BENCH_201.size), np.nan)
    for value, name in zip(values, names, strict=True):
        column = table[name]
        measured = ~column.is_null().to_numpy()
        numbers = column.fill_null(0.0).to_numpy()
        wrong = measured & ~np.isfinite(numbers)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise UserError(
                f"{path}: {name} of {table['arch'][row]} is {numbers[row]}; "
                f"a cell that was not measured is left empty"
            )
        value[rows[measured]] = numbers[measured]
    return CsvTable(path, names, values)


def _read_with_arrow(path: Path) -> pa.Table:
    import pyarrow as pa  # noqa: PLC0415 - a tenth of a second that a cached start does not pay
    from pyarrow import csv as arrow_csv  # noqa: PLC0415 - slow to import, and not always needed

    names = header(path)
    if not names:
        raise UserError(f"{path} is not a table: its first line must name a column 'arch'")
    if len(set(names)) != len(names):
        raise UserError(f"{path} names a column twice in its first line")
    if "device" in names:
        raise UserError(
            f"{path} has a column 'device', and so rows of several devices; give each device a "
            f"column of its own, named by its id"
        )
    types = dict.fromkeys(numeric_columns(names), pa.float64())
    options = arrow_csv.ConvertOptions(
        column_types={**types, "arch": pa.string(), "index": pa.int64()}, null_values=[""]
    )
    try:
        return arrow_csv.read_csv(path, convert_options=options)
    except (pa.ArrowInvalid, OSError) as error:
        reason = str(error).splitlines()[0][:200]
        raise UserError(f"{path} is corrupt or truncated: {reason}") from error


def _official_rows(path: Path, table: pa.Table) -> Int64[ndarray, "rows"]:
    """Official index of each row of the file, checked."""
    number_of = {text: i for i, text in enumerate(NAS_BENCH_201.strings)}
    strings = table["arch"].to_pylist()
    for line, text in enumerate(strings, start=2):
        if text not in number_of:
            raise UserError(f"{path}, line {line}: {text!r} is not a NAS-Bench-201 architecture")
    rows = np.array([number_of[text] for text in strings], np.int64)
    if len(rows) != len(np.unique(rows)):
        twice = strings[int(np.argmax(np.bincount(rows)[rows] > 1))]
        raise UserError(f"{path} holds {twice} more than once")
    if path.name.startswith(WHOLE_SPACE_PREFIX) and len(rows) != NAS_BENCH_201.size:
        raise UserError(
            f"{path} has {len(rows):,} rows, a table named {WHOLE_SPACE_PREFIX}* has "
            f"{NAS_BENCH_201.size:,}; fetch or import it again, or name a partial table otherwise"
        )
    if path.name.startswith(WHOLE_SPACE_PREFIX) and not _ends_a_line(path):
        raise UserError(f"{path} is truncated: its last line has no end; fetch or import it again")
    if "index" in table.column_names and not np.array_equal(
        table["index"].fill_null(-1).to_numpy(), rows
    ):
        raise UserError(f"{path}: column 'index' disagrees with the official number of 'arch'")
    return rows


def _ends_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read() == b"\n"


def _cache_path(path: Path) -> Path:
    digest = sha256(str(path.resolve()).encode()).hexdigest()[:16]
    return Path(platformdirs.user_cache_dir("edgenas")) / f"{path.stem}-{digest}.npz"


def _from_cache(path: Path, cache: Path, key: str) -> CsvTable | None:
    try:
        with cache.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            if str(stored["key"]) != key:
                return None
            columns = tuple(str(name) for name in stored["columns"])
            values = stored["values"]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
    whole = values.shape == (len(columns), NAS_BENCH_201.size)
    return CsvTable(path, columns, values) if whole else None


def _to_cache(table: CsvTable, cache: Path, key: str) -> None:
    try:
        with replacing(cache) as file:
            np.savez(file, key=key, columns=np.array(table.columns), values=table.values)
    except OSError:
        return  # a cache that cannot be written costs a second, not the run
