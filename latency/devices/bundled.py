"""Our own measurements, in the package: in `measured/`, a table and its origin for each device.

A table is a compressed CSV with one row an architecture that was timed: `index`, its official
number, and milliseconds. What a number stands for, this module
does not know. The origin beside it (JSON) says where, when and how the times were taken;
`measured/README.md` is the card of all of them. Both are written by `python -m nas.spaces.nas_bench_201.fitting.bundle`.
"""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from io import TextIOWrapper
from pathlib import Path
from typing import Any, BinaryIO, final

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

FOLDER = Path(__file__).parents[2] / "nas/spaces/nas_bench_201/measured"

TABLE_SUFFIX = ".csv.gz"

COLUMNS = ("index", "median_ms", "p95_ms", "p99_ms")

DIGITS = 5
"""Of a millisecond that are kept: 10 ns, less than any clock here resolves."""


@final
@dataclass(frozen=True)
class ShippedTable:
    """One device's times, of the architectures that were measured and of no others."""

    path: Path
    index: Int64[ndarray, " n"]
    median_ms: Float64[ndarray, " n"]
    p95_ms: Float64[ndarray, " n"]
    p99_ms: Float64[ndarray, " n"]


@cache
def shipped_paths() -> dict[str, Path]:
    """The table of each device that comes with the package, by device id."""
    return {
        str(origin_of(table)["device"]): table for table in sorted(FOLDER.glob(f"*{TABLE_SUFFIX}"))
    }


def origin_of(table: Path) -> dict[str, Any]:
    """What is written beside a table: where, when and how it was measured."""
    sidecar = table.with_name(table.name.removesuffix(TABLE_SUFFIX) + ".json")
    origin: dict[str, Any] = json.loads(sidecar.read_text(encoding="utf-8"))
    return origin


def read_shipped(path: Path) -> ShippedTable:
    """The times in a file of the package."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    columns = np.array(rows[1:], np.float64).T
    return ShippedTable(path, columns[0].astype(np.int64), *columns[1:])


def write_shipped(file: BinaryIO, rows: Iterable[tuple[int, float, float, float]]) -> None:
    """Store times, in the order of the index; the same times make the same bytes."""
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed,
        TextIOWrapper(packed, encoding="utf-8", newline="") as text,
    ):
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(COLUMNS)
        for index, *times_ms in sorted(rows):
            writer.writerow([index, *(f"{ms:.{DIGITS}f}" for ms in times_ms)])
