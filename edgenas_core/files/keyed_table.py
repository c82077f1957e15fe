"""The open CSV layout of tables: one row an architecture, one column a quantity.

`arch` holds the architecture's text, `index` (optional) its number in a space that has numbers, every
other column numbers; an empty field means "not measured". A file whose name ends in `accuracy.csv`
is an accuracy table. Any other CSV with `arch` is a latency table with one column a device, in
milliseconds, unless its name ends in another unit (`_mj.csv` is energy). A model's predictions for a
device stand in columns of their own, `device@predicted`, `device@low` and `device@high`. Other dialects of CSV
are read, too (`csv_dialect`); what cannot be read is listed by `left_out`.

Which architectures there are, the caller says: `Keys`, which every search space satisfies. A file
belongs to a space if it lies in the folder of the space's name, or beside that folder if its first
`arch` is one of the space and its origin (JSON of the same name) names no other space.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, final, runtime_checkable

import numpy as np
import platformdirs
from jaxtyping import Float64, Int64
from numpy import ndarray

from edgenas_core.files import csv_dialect
from edgenas_core.files.atomic_file import remove_unfinished, write_whole
from edgenas_core.files.safe_file import decoded, opened, read_bytes, read_text
from edgenas_core.types.architectures import Enumerable, Keys
from edgenas_core.types.errors import UserError

if TYPE_CHECKING:
    import pyarrow as pa


ACCURACY_SUFFIX = "accuracy.csv"
ENERGY_SUFFIX = "_mj.csv"
JOURNAL_SUFFIX = ".journal.csv"  # of a measurement, whose table lies beside it
LATENCY_SUFFIX = "_ms.csv"
_NO_TIME = re.compile(r"energy|joule|(?<![a-z])[mu]j(?![a-z])", re.IGNORECASE)
"""Words in the name of a table or a column of energies."""

_ACCURACY = re.compile(r"(.*[_ ])?(acc|accuracy|top-?1)", re.IGNORECASE)
"""Names of columns of accuracies."""

_NO_DEVICE = re.compile(
    r"(.*[_ ])?(acc|accuracy|top-?[15]|error|loss|m?flops|macs|params|parameters)", re.IGNORECASE
)
"""Names of columns of a latency table that are no devices."""

_LAYERS_SUFFIX = "layers.csv.gz"  # tables of layers, of `latency.models.layer_table`
_TABLE_SUFFIXES = (".csv", ".tsv")
_OTHER_SUFFIXES = (".gz", ".zip", ".xlsx", ".xls", ".ods", ".parquet", ".pickle", ".pkl")
"""Endings of files that hold tables which are not read."""

PREDICTED, LOW, HIGH = "@predicted", "@low", "@high"
"""Endings of the names of columns with a model's predictions and their 90 % interval."""

_LARGEST_FOREIGN = 2**28  # bytes of a table in another dialect, which is read at once
_LONGEST_LINE = 2**20  # bytes; a file without a line break in so many is no table


@runtime_checkable
class HasWholeTables(Enumerable, Protocol):
    """A benchmark whose own tables hold every architecture."""

    table_prefix: str  # beginning of their file names


def is_whole(path: Path, keys: Keys) -> bool:
    """Whether the file's name says that the table holds every architecture."""
    return isinstance(keys, HasWholeTables) and path.name.startswith(keys.table_prefix)


def data_folder(*, to_fill: bool = False) -> Path:
    """Folder of the benchmark tables: `NAS_DATA`, or the user's data folder.

    Raises:
      UserError: if `NAS_DATA` names no folder; with `to_fill` only if it names something else that is there.
    """
    named = os.environ.get("NAS_DATA")
    if not named:
        return Path(platformdirs.user_data_dir("edgenas"))
    if not (Path(named).is_dir() or (to_fill and not Path(named).exists())):
        raise UserError(
            f"NAS_DATA={named} is not a folder; name the folder of your tables, or unset it"
        )
    return Path(named)


@final
@dataclass(frozen=True)
class CsvTable:
    """Numbers of one file: those of every architecture, in the order of their numbers, if they have any.

    Without numbers the rows are those of the file.
    """

    path: Path
    architectures: Int64[ndarray, "rows D"]
    columns: tuple[str, ...]
    values: Float64[ndarray, "columns rows"]  # NaN: not measured

    def column(self, name: str) -> Float64[ndarray, "rows"]:
        """One column; NaN where it was not measured.

        Raises:
          KeyError: if the file has no such column.
        """
        if name not in self.columns:
            raise KeyError(name)
        values: Float64[ndarray, "rows"] = self.values[self.columns.index(name)]
        return values


def latency_files(folder: Path, keys: Keys) -> dict[str, Path]:
    """File of each column of measured latencies in a folder.

    Raises:
      UserError: if two files have a column of the same name, one named `*_ms.csv` is no table, or the
        name of another, or of one of its columns, speaks of energy.
    """
    others = (
        path
        for path in _files_of(folder, keys, _TABLE_SUFFIXES)
        if not path.name.endswith((ACCURACY_SUFFIX, ENERGY_SUFFIX, JOURNAL_SUFFIX))
    )
    path_of = _file_of_each_column("latency", others, LATENCY_SUFFIX)
    for column, path in path_of.items():
        word = _NO_TIME.search(f"{path.stem} {column}")
        if word is not None and not path.name.endswith(LATENCY_SUFFIX):
            raise UserError(
                f"{path} speaks of {word[0]!r} in its name or in column {column!r}, and would be read as "
                f"latencies; rename it to *{ENERGY_SUFFIX} if it holds millijoules, to *{LATENCY_SUFFIX} if "
                f"milliseconds"
            )
    return path_of


def accuracy_columns(folder: Path, keys: Keys, benchmark: str) -> list[tuple[Path, str]]:
    """Columns of the user's own accuracies, with their files.

    The column is named so, or is the only one of a file whose name ends in `accuracy.csv`.

    Args:
      folder: of the tables.
      keys: the space.
      benchmark: name of the file of a benchmark's accuracies, which are not the user's own.
    """
    found = []
    for path in _files_of(folder, keys, _TABLE_SUFFIXES):
        if path.name == benchmark or path.name.endswith((ENERGY_SUFFIX, JOURNAL_SUFFIX)):
            continue
        try:
            names = numeric_columns(header(path))
        except UserError:
            continue  # `left_out` names it
        of_accuracy = [name for name in names if _ACCURACY.fullmatch(name)]
        if not of_accuracy and path.name.endswith(ACCURACY_SUFFIX):
            of_accuracy = [*names]
        found += [(path, name) for name in of_accuracy]
    return found


def energy_files(folder: Path, keys: Keys) -> dict[str, Path]:
    """File of each column of energies in a folder.

    Raises:
      UserError: if two files have a column of the same name, or one is no table.
    """
    paths = _files_of(folder, keys, (ENERGY_SUFFIX,))
    return _file_of_each_column("energy", paths, ENERGY_SUFFIX)


def left_out(folder: Path, keys: Keys) -> dict[Path, str]:
    """The reason why a file of a folder of tables is not read, of each that looks like a table."""
    reasons: dict[Path, str] = {}
    for path in sorted(path for home in (folder, folder / keys.name) for path in home.glob("*.*")):
        suffix = path.suffix.lower()
        if suffix not in (*_TABLE_SUFFIXES, *_OTHER_SUFFIXES) or path.name.endswith(
            (JOURNAL_SUFFIX, _LAYERS_SUFFIX)
        ):
            continue
        if path.name.startswith("."):
            reasons[path] = "it is hidden, as copies that other systems leave behind are"
        elif suffix in _OTHER_SUFFIXES:
            reasons[path] = "tables are read as CSV; unpack it, or save it as CSV"
        elif reason := _reason(path):
            reasons[path] = reason
        elif (
            path.parent == folder
            and not belongs(path, keys)
            and not origin_beside(path).get("space")
        ):
            reasons[path] = f"its first architecture is none of space={keys.name}"
        elif not path.name.endswith((ACCURACY_SUFFIX, ENERGY_SUFFIX)):
            are_read = isinstance(keys, Enumerable)  # accuracies, by `accuracy_columns`
            foreign = [
                name
                for name in header(path)
                if _NO_DEVICE.fullmatch(name) and not (are_read and _ACCURACY.fullmatch(name))
            ]
            if foreign:
                reasons[path] = f"its column {foreign[0]!r} is no latency; the others are read"
    return reasons


def _reason(path: Path) -> str:
    """The reason why a file is no table; empty if it is one."""
    try:
        _read_version(path)
        header(path)
    except (OSError, UserError) as error:
        return str(error).removeprefix(f"{path} ").removeprefix(f"{path}: ")
    return ""


def _files_of(folder: Path, keys: Keys, endings: tuple[str, ...]) -> Iterator[Path]:
    """Files of one space with such endings in any case; those without a column `arch` count as everyone's."""
    yield from (path for path in _ending_in(folder, endings) if belongs(path, keys))
    yield from _ending_in(folder / keys.name, endings)


def _ending_in(folder: Path, endings: tuple[str, ...]) -> list[Path]:
    paths = (path for path in folder.glob("*.*") if not path.name.startswith("."))
    return sorted(path for path in paths if path.name.lower().endswith(endings))


def belongs(path: Path, keys: Keys) -> bool:
    """Whether a table beside the folders of the spaces is of this space."""
    if is_whole(path, keys):
        return True
    space = origin_beside(path).get("space")
    if space is not None:
        return bool(space == keys.name)
    names, row = _first_lines(path)
    first = dict(zip(names, row, strict=False)).get("arch")
    try:
        return first is None or keys.parse(csv_dialect.architecture_text(first, keys)) is not None
    except UserError:
        return False


def origin_beside(table: Path) -> dict[str, Any]:
    """Origin of a table, a JSON file of the same name; {} if it is missing or cannot be read."""
    sidecar = table.with_name(f"{table.name.removesuffix('.gz').removesuffix('.csv')}.json")
    try:
        origin = json.loads(read_text(sidecar))
    except (OSError, UserError, ValueError, RecursionError):
        return {}
    return origin if isinstance(origin, dict) else {}


def _file_of_each_column(what: str, paths: Iterable[Path], suffix: str) -> dict[str, Path]:
    path_of: dict[str, Path] = {}
    for path in paths:
        try:
            names = header(path)
        except UserError:
            continue  # `left_out` names it
        if not names and path.name.endswith(suffix):
            reason = _reason(path) or "its first line must name a column 'arch'"
            raise UserError(f"{path} is not a table: {reason}")
        for name in numeric_columns(names):
            if name.endswith((PREDICTED, LOW, HIGH)) or _NO_DEVICE.fullmatch(name):
                continue
            if name in path_of:
                raise UserError(
                    f"{what} column {name!r} is in {path_of[name]} and in {path}; rename one"
                )
            path_of[name] = path
    return path_of


def header(path: Path) -> tuple[str, ...]:
    """Column names of a CSV file; () if it has no column `arch`.

    Raises:
      UserError: if a name has a control character or a line end.
    """
    names, _ = _first_lines(path)
    if "arch" not in names:
        return ()
    for name in names:
        if not name.isprintable():
            raise UserError(
                f"{path}: the column name {name!r} has a control character or a line end"
            )
    return tuple(names)


def _first_lines(path: Path) -> tuple[list[str], list[str]]:
    """Fields of the first two lines; [] in place of what cannot be read."""
    try:
        return _read_version(path)
    except (OSError, UserError):
        return [], []


def _read_version(path: Path) -> tuple[list[str], list[str]]:
    """Fields of the first two lines, in the form that is parsed.

    Raises:
      UserError, OSError: if the file cannot be read.
    """
    status = path.stat()
    return _read_first_lines(path, status.st_ino, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=1024)
def _read_first_lines(path: Path, *_version: int) -> tuple[list[str], list[str]]:
    """The same; a file is opened once, however often its columns are looked up, until it changes."""
    with opened(path) as file:
        lines = [file.readline(_LONGEST_LINE) for _ in range(2)]
    if csv_dialect.is_plain(lines[0]):
        try:
            rows = [*csv.reader(line.decode("utf-8-sig") for line in lines), [], []]
        except (UnicodeDecodeError, csv.Error) as error:
            raise UserError(f"its second line cannot be read: {error}") from error
        return rows[0], rows[1]
    names, *others = csv_dialect.standard_rows(read_bytes(path, _LARGEST_FOREIGN))
    if "arch" in names:
        return names, next(iter(others), [])
    return ["arch", *names], []  # with numbers alone


def numeric_columns(names: Sequence[str]) -> tuple[str, ...]:
    """Names of a header whose columns hold numbers."""
    return tuple(name for name in names if name not in {"arch", "index"})


def read_csv_table(path: Path, keys: Keys) -> CsvTable:
    """Read a table, once in a process as long as the file does not change; its numbers are read-only.

    Raises:
      UserError: if the file is missing, unreadable, truncated or malformed.
    """
    try:
        status = path.stat()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    return _read_once(path, keys, status.st_ino, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=4)
def _read_once(path: Path, keys: Keys, *_version: int) -> CsvTable:
    table = parse_csv_table(path, keys)
    table.values.setflags(write=False)
    return table


def parse_csv_table(path: Path, keys: Keys) -> CsvTable:
    """Read a table from the file, whether or not it was read before.

    Raises:
      UserError: if the file is missing, unreadable, truncated or malformed.
    """
    with opened(path) as file:
        content = file.read()
    if not csv_dialect.is_plain(content.partition(b"\n")[0]):
        try:
            content = csv_dialect.standard(content, keys)
        except UserError as error:
            raise UserError(f"{path} is not a table: {error}") from error
    table = _parse_with_arrow(path, content)
    names = numeric_columns(table.column_names)
    architectures = _architectures(path, table, keys)
    values = np.full((len(names), len(architectures)), np.nan)
    for value, name in zip(values, names, strict=True):
        column = table[name]
        measured = ~column.is_null().to_numpy()
        numbers = column.fill_null(0.0).to_numpy()
        wrong = measured & ~np.isfinite(numbers)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise UserError(
                f"{path}: {name} of {table['arch'][row]} is {numbers[row]}; "
                f"leave the field empty where nothing was measured"
            )
        value[measured] = numbers[measured]
    if not isinstance(keys, Enumerable):
        return CsvTable(path, architectures, names, values)
    in_order = np.full((len(names), keys.size), np.nan)
    rows = _numbers(path, table, architectures, keys, ends_a_line=content.endswith(b"\n"))
    in_order[:, rows] = values
    return CsvTable(path, keys.architectures(np.arange(keys.size)), names, in_order)


def write_csv_table(
    path: Path,
    keys: Keys,
    columns: Mapping[str, Float64[ndarray, "rows"]],
    architectures: Int64[ndarray, "rows D"] | None = None,
) -> None:
    """Write columns, replacing the file at once; NaN becomes an empty field.

    Every number reads back exactly. Rows without any number are left out, unless the file's name
    says that it holds every architecture.

    Args:
      path: of the file.
      keys: the space of the architectures.
      columns: numbers by the name of the column.
      architectures: of each row; None: all of a numbered space, in order.

    Raises:
      OSError: if it cannot be written.
    """
    values = np.stack(list(columns.values()), axis=-1)
    numbered = keys if isinstance(keys, Enumerable) else None
    if architectures is None:
        assert numbered is not None
        architectures = numbered.architectures(np.arange(numbered.size))
    if not is_whole(path, keys):
        kept = ~np.isnan(values).all(axis=-1)
        architectures, values = architectures[kept], values[kept]
    if numbered is not None and 4 * len(architectures) > numbered.size:
        every = list(_row_of_text(numbered))
        leading = {"arch": [every[n] for n in numbered.numbers(architectures)]}
    else:
        leading = {"arch": [keys.text(row) for row in architectures]}
    if numbered is not None:
        leading = {"index": numbered.numbers(architectures).tolist(), **leading}
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*leading, *columns])
    for *first, numbers in zip(*leading.values(), values.tolist(), strict=True):
        # floats are written by their repr
        writer.writerow([*first, *("" if isnan(number) else number for number in numbers)])
    remove_unfinished(path.parent, path.name)
    write_whole(path, text.getvalue())


def _parse_with_arrow(path: Path, content: bytes) -> pa.Table:
    import pyarrow as pa  # noqa: PLC0415 - 0.1 s that a start without tables does not need
    from pyarrow import csv as arrow_csv  # noqa: PLC0415 - slow to import, and not always needed

    names = header(path)
    if not names:
        reason = _reason(path) or "its first line must name a column 'arch'"
        raise UserError(f"{path} is not a table: {reason}")
    if len(set(names)) != len(names):
        raise UserError(f"{path} names a column twice in its first line")
    types = dict.fromkeys(numeric_columns(names), pa.float64())
    options = arrow_csv.ConvertOptions(
        column_types={**types, "arch": pa.string(), "index": pa.int64()}, null_values=[""]
    )
    try:
        return arrow_csv.read_csv(pa.BufferReader(content), convert_options=options)
    except pa.ArrowInvalid as error:
        reason = str(error).splitlines()[0][:200]
        raise UserError(f"{path} is corrupt or truncated: {reason}") from error


def _architectures(path: Path, table: pa.Table, keys: Keys) -> Int64[ndarray, "rows D"]:
    """Architecture of each row of the file; no two are the same."""
    texts = table["arch"].to_pylist()
    row_of = {}
    if isinstance(keys, Enumerable) and 4 * len(texts) > keys.size:
        row_of = _row_of_text(keys)
    at, rows = 0, []
    try:
        for at, text in enumerate(texts):  # noqa: B007 - named by the error
            row = row_of.get(text)
            rows.append(
                keys.parse(csv_dialect.architecture_text(text, keys)) if row is None else row
            )
    except UserError as error:
        raise UserError(
            f"{path}, line {_line_of(path, at, texts[at])}: {str(error)[:500]}"
        ) from error
    if not rows:
        return np.empty((0, len(keys.num_choices)), np.int64)
    architectures = keys.normal(np.stack(rows))
    last = {row.tobytes(): place for place, row in enumerate(architectures)}
    if len(last) != len(rows):
        twice = next(n for n, row in enumerate(architectures) if last[row.tobytes()] != n)
        raise UserError(f"{path} holds {texts[twice]} more than once")
    return architectures


def _line_of(path: Path, row: int, text: str) -> int:
    """Line of a row's architecture in the file, where blank lines count and rows may stand in another order."""
    every = decoded(read_bytes(path, _LARGEST_FOREIGN)).splitlines()
    filled = [line for line, each in enumerate(every, start=1) if each.strip()]
    in_order = filled[min(row + 1, len(filled) - 1)]
    holding = (line for line in (in_order, *filled) if text in every[line - 1])
    return next(holding, in_order)


@lru_cache(maxsize=2)
def _row_of_text(keys: Enumerable) -> dict[str, Int64[ndarray, "D"]]:
    """Every architecture by its text, in the order of the numbers."""
    return {keys.text(row): row for row in keys.architectures(np.arange(keys.size))}


def _numbers(
    path: Path,
    table: pa.Table,
    architectures: Int64[ndarray, "rows D"],
    keys: Enumerable,
    *,
    ends_a_line: bool,
) -> Int64[ndarray, "rows"]:
    """Number of each row of the file, checked against the column `index` and the file's name."""
    numbers = keys.numbers(architectures)
    if is_whole(path, keys) and len(numbers) != keys.size:
        raise UserError(
            f"{path} has {len(numbers):,} rows, but a table of this name has {keys.size:,}; fetch or "
            f"import it again, or give a table of some architectures another name"
        )
    if is_whole(path, keys) and not ends_a_line:
        raise UserError(f"{path} is truncated: its last line has no end; fetch or import it again")
    if "index" in table.column_names and not np.array_equal(
        table["index"].fill_null(-1).to_numpy(), numbers
    ):
        raise UserError(f"{path}: column 'index' disagrees with the number of 'arch'")
    return numbers
