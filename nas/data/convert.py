"""`fetch` and `import`: public files become tables in the data folder.

No column that is in the folder is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from edgenas_core.files.keyed_table import (
    CsvTable,
    header,
    latency_files,
    numeric_columns,
    read_csv_table,
    write_csv_table,
)
from edgenas_core.types.architectures import Enumerable
from edgenas_core.types.errors import UserError
from latency.base import EnumerableSpace
from nas.accuracy.base import HasAccuracyTable
from nas.data.download import download
from nas.spaces.base import SearchSpace
from nas.spaces.public_data import (
    HasPublicData,
    NewTable,
    PublicData,
    raw_folder,
    table_folder,
)


def fetch(space: SearchSpace, folder: Path, mirror: str) -> Iterator[str]:
    """Download the public files of a space, and store their numbers.

    Yields:
      a line for each file that was written or left as it is.

    Raises:
      UserError: if the space has no public files, or one cannot be downloaded or is not as published.
      OSError: if a file cannot be written.
    """
    data = _public_data(space)
    raw = raw_folder(space, folder)
    download(data.files, raw, mirror)
    yield f"{len(data.files)} files are in {raw}, each as published"
    yield from _store(space, folder, data.fetched(raw))


def import_files(space: SearchSpace, paths: Sequence[Path], folder: Path) -> Iterator[str]:
    """Convert files of the user, and store their numbers.

    Yields:
      a line for each file that was written or left as it is.

    Raises:
      UserError: if the space has no known files, or these are none of them.
      OSError: if a file cannot be read or written.
    """
    yield from _store(space, folder, _public_data(space).imported(paths))


def _public_data(space: SearchSpace) -> PublicData:
    if not isinstance(space, HasPublicData):
        raise UserError(f"space={space.name} has no public data that could be fetched or imported")
    return space.public_data()


def _store(space: SearchSpace, folder: Path, tables: Iterable[NewTable]) -> Iterator[str]:
    home = table_folder(space, folder)
    for table in tables:
        path = home / table.file
        if (
            isinstance(space, Enumerable)
            and isinstance(space, HasAccuracyTable)
            and table.file == space.accuracy_table.file
        ):
            yield store_accuracy(space, path, table.columns)
        else:
            yield store_latency(space, path, table.columns, table.architectures)


def store_accuracy(
    space: EnumerableSpace, path: Path, columns: Mapping[str, Float64[ndarray, "size"]]
) -> str:
    """Write the accuracy table, unless the existing file has columns that are not in `columns`.

    Returns:
      one line for the user.
    """
    more = [name for name in numeric_columns(header(path)) if name not in columns]
    if more:
        return (
            f"left {path} as it is: it also holds {_few(more)}; "
            f"move it away to have it written anew"
        )
    write_csv_table(path, space, columns)
    return f"wrote {path}: {_few(list(columns))}"


def store_latency(
    space: SearchSpace,
    path: Path,
    columns: Mapping[str, Float64[ndarray, "rows"]],
    architectures: Int64[ndarray, "rows D"] | None = None,
) -> str:
    """Write the columns that no other table of the folder has, and keep those of the file.

    Args:
      space: of the architectures.
      path: of the file.
      columns: milliseconds by the name of the column.
      architectures: of each row; None: all of a numbered space, in order.

    Returns:
      one line for the user.

    Raises:
      UserError: if the existing table cannot be read.
    """
    data = path.parents[len(table_folder(space, Path()).parts)]
    elsewhere = {name: file for name, file in latency_files(data, space).items() if file != path}
    new = {name: column for name, column in columns.items() if name not in elsewhere}
    holders = sorted({str(elsewhere[name]) for name in columns if name in elsewhere})
    left = f"{len(columns) - len(new)} of them are already in {', '.join(holders)}"
    if not new:
        return f"did not write {path}: {_few(list(columns))}; {left}"
    kept = new
    if any(name not in new for name in numeric_columns(header(path))):
        table = read_csv_table(path, space)
        kept = {**dict(zip(table.columns, table.values, strict=True)), **new}
        if architectures is not None:
            architectures, kept = _joined(table, architectures, new)
    write_csv_table(path, space, kept, architectures)
    return f"wrote {path}: {_few(list(new))}" + (f"; {left}" if holders else "")


def _joined(
    table: CsvTable,
    architectures: Int64[ndarray, "rows D"],
    columns: Mapping[str, Float64[ndarray, "rows"]],
) -> tuple[Int64[ndarray, "n D"], dict[str, Float64[ndarray, "n"]]]:
    """Rows and columns of a table and of new columns; NaN where one lacks a row of the other."""
    every = np.concatenate([table.architectures, architectures])
    _, first, place = np.unique(every, axis=0, return_index=True, return_inverse=True)
    place, old = place.reshape(-1), len(table.architectures)
    joined = {name: np.full(len(first), np.nan) for name in (*table.columns, *columns)}
    for name, values in zip(table.columns, table.values, strict=True):
        joined[name][place[:old]] = values
    for name, values in columns.items():
        joined[name][place[old:]] = values
    return every[first], joined


def _few(names: list[str]) -> str:
    first = ", ".join(names[:3])
    return first if len(names) <= 3 else f"{len(names)} columns ({first}, ...)"
