"""Measurements that come with a search space: a table and its origin for each device.

They are stored in the folder `measured/` of the space's resources. A table is a compressed CSV with one row
an architecture that was timed: `index`, its number in the space, and milliseconds. The origin beside
it (JSON) says where, when and how the times were taken; `measured/README.md` is the card of all.
"""

from __future__ import annotations

import csv
import gzip
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, final

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from latency.base import Space

TABLE_SUFFIX = ".csv.gz"


@final
@dataclass(frozen=True)
class BundledTable:
    """Times of one device, of the architectures that were measured and of no others."""

    path: Path
    index: Int64[ndarray, " n"]
    median_ms: Float64[ndarray, " n"]
    p95_ms: Float64[ndarray, " n"]
    p99_ms: Float64[ndarray, " n"]


def bundled_paths(space: Space) -> dict[str, Path]:
    """The bundled table of each device, by device id."""
    return {} if space.resources is None else _tables_in(space.resources / "measured")


@cache
def _tables_in(folder: Path) -> dict[str, Path]:
    return {
        str(origin_of(table)["device"]): table for table in sorted(folder.glob(f"*{TABLE_SUFFIX}"))
    }


def origin_of(table: Path) -> dict[str, Any]:
    """Origin of a bundled table: where, when and how it was measured."""
    sidecar = table.with_name(table.name.removesuffix(TABLE_SUFFIX) + ".json")
    origin: dict[str, Any] = json.loads(sidecar.read_text(encoding="utf-8"))
    return origin


def read_bundled(path: Path) -> BundledTable:
    """Read a bundled table."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    columns = np.array(rows[1:], np.float64).T
    return BundledTable(path, columns[0].astype(np.int64), *columns[1:])
