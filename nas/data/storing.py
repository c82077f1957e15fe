"""Putting columns into the data folder without taking anything away that is there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from jaxtyping import Float64
from numpy import ndarray

from nas.spaces.nas_bench_201.csv_writer import write_csv_table
from runtime.shell.keyed_table import (
    ACCURACY_FILE,
    header,
    latency_files,
    numeric_columns,
    read_csv_table,
)


def store_accuracy(folder: Path, columns: Mapping[str, Float64[ndarray, "15625"]]) -> str:
    """Write the accuracy table, unless the one that is there has columns that this one lacks.

    Returns:
      one line that says what was done.
    """
    path = folder / ACCURACY_FILE
    more = [name for name in numeric_columns(header(path)) if name not in columns]
    if more:
        return (
            f"left {path} as it is: it also holds {_few(more)}; "
            f"move it away to have it written anew"
        )
    write_csv_table(path, columns)
    return f"wrote {path}: {_few(list(columns))}"


def store_latency(path: Path, columns: Mapping[str, Float64[ndarray, "15625"]]) -> str:
    """Write the columns that no other table of the folder has, beside those `path` had.

    Returns:
      one line that says what was done.

    Raises:
      UserError: if the table that is there cannot be read.
    """
    elsewhere = {name: file for name, file in latency_files(path.parent).items() if file != path}
    new = {name: column for name, column in columns.items() if name not in elsewhere}
    holders = sorted({str(elsewhere[name]) for name in columns if name in elsewhere})
    left = f"{len(columns) - len(new)} of them are already in {', '.join(holders)}"
    if not new:
        return f"did not write {path}: {_few(list(columns))}; {left}"
    kept = {}
    if any(name not in new for name in numeric_columns(header(path))):
        table = read_csv_table(path)
        kept = dict(zip(table.columns, table.values, strict=True))
    write_csv_table(path, {**kept, **new})
    return f"wrote {path}: {_few(list(new))}" + (f"; {left}" if holders else "")


def _few(names: list[str]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{len(names)} columns ({shown}, ...)"
